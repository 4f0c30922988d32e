package command

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Later writes, into dir, a kubeconfig for an API server whose clock is ahead: a proxy
// before that of kubeconfig changes the date of its answers and nothing else, until stop
// is called.
func Later(kubeconfig, dir string, ahead time.Duration) (path string, stop func(), err error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return "", nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return "", nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return "", nil, err
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			date, err := http.ParseTime(r.Header.Get("Date"))
			if err == nil {
				r.Header.Set("Date", date.Add(ahead).UTC().Format(http.TimeFormat))
			}
			return err
		},
	})
	c := clientcmdapi.NewConfig()
	c.Clusters["later"] = &clientcmdapi.Cluster{Server: proxy.URL}
	c.Contexts["later"] = &clientcmdapi.Context{Cluster: "later"}
	c.CurrentContext = "later"
	path = filepath.Join(dir, "later.kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		proxy.Close()
		return "", nil, err
	}
	return path, proxy.Close, nil
}
