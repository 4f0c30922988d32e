package cmd

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// config is a kubeconfig with the contexts, each as NAME=SERVER/USER.
func config(contexts ...string) *clientcmdapi.Config {
	c := clientcmdapi.NewConfig()
	for _, text := range contexts {
		name, at, _ := strings.Cut(text, "=")
		server, user, _ := strings.Cut(at, "/")
		c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, LocationOfOrigin: name}
		c.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + server, LocationOfOrigin: name}
		c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: user, LocationOfOrigin: name}
	}
	return c
}

func names(members []member) []string {
	var list []string
	for _, m := range members {
		list = append(list, m.Name)
	}
	return list
}

func TestSelect(t *testing.T) {
	const eks = "arn:aws:eks:eu-west-1:1:cluster/prod"
	members := membersOfKubeconfig(config("prod-1=a/x", "prod-2=b/x", "test=c/x", eks+"=d/x", "[odd]=e/x"))
	for name, tc := range map[string]struct {
		patterns []string
		want     []string
		err      string
	}{
		"all":                        {nil, []string{"[odd]", eks, "prod-1", "prod-2", "test"}, ""},
		"a pattern":                  {[]string{"prod-*"}, []string{"prod-1", "prod-2"}, ""},
		"names keep their order":     {[]string{"test", "prod-2"}, []string{"test", "prod-2"}, ""},
		"a slash is a letter":        {[]string{"arn:*prod"}, []string{eks}, ""},
		"found twice, once there":    {[]string{"prod-1", "prod-*"}, []string{"prod-1", "prod-2"}, ""},
		"any letter":                 {[]string{"prod-?"}, []string{"prod-1", "prod-2"}, ""},
		"a name that is a pattern":   {[]string{"[odd]"}, []string{"[odd]"}, ""},
		"a name that is not there":   {[]string{"prod"}, nil, `no context "prod"`},
		"a pattern that fits none":   {[]string{"test", "dev-*"}, nil, `no context fits "dev-*"`},
		"one pattern of several":     {[]string{"prod-*", "live-*"}, nil, `no context fits "live-*"`},
		"what is no pattern":         {[]string{"prod-["}, nil, `"prod-[" is no pattern`},
		"capitals are other letters": {[]string{"PROD-*"}, nil, `no context fits`},
	} {
		got, err := selectMembers(members, tc.patterns)
		if !slices.Equal(names(got), tc.want) || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, %v", name, names(got), err)
		}
	}
}

// TestSameServerAndUser: a cluster is read once, unless another user may see other objects
// there, or both contexts were named.
func TestSameServerAndUser(t *testing.T) {
	members := membersOfKubeconfig(config("a=one/x", "b=one/x", "c=one/y", "d=two/x", "e=one/x"))
	for name, tc := range map[string]struct {
		patterns []string
		want     []string
		same     map[string][]string
	}{
		"by pattern":       {[]string{"*"}, []string{"a", "c", "d"}, map[string][]string{"a": {"b", "e"}}},
		"all":              {nil, []string{"a", "c", "d"}, map[string][]string{"a": {"b", "e"}}},
		"both in full":     {[]string{"a", "b"}, []string{"a", "b"}, nil},
		"one in full":      {[]string{"*", "b"}, []string{"b", "c", "d"}, map[string][]string{"b": {"a", "e"}}},
		"another user":     {[]string{"[ac]"}, []string{"a", "c"}, nil},
		"another server":   {[]string{"[ad]"}, []string{"a", "d"}, nil},
		"in full, pattern": {[]string{"a", "[be]"}, []string{"a"}, map[string][]string{"a": {"b", "e"}}},
	} {
		got, err := selectMembers(members, tc.patterns)
		same := map[string][]string{}
		for _, m := range got {
			if m.Same != nil {
				same[m.Name] = m.Same
			}
		}
		if err != nil || !slices.Equal(names(got), tc.want) || len(same)+len(tc.same) > 0 && !reflect.DeepEqual(same, tc.same) {
			t.Errorf("%s: %v, %v, %v", name, names(got), same, err)
		}
	}
	other := config("a=one/x", "b=one/x")
	other.Clusters["b"].CertificateAuthorityData = []byte("another CA")
	if got, err := selectMembers(membersOfKubeconfig(other), nil); err != nil || len(got) != 2 {
		t.Errorf("whom to trust is a part of the server: %v, %v", names(got), err)
	}
	broken := config("a=one/x", "b=one/x")
	broken.Contexts["c"], broken.Contexts["d"] = &clientcmdapi.Context{Cluster: "gone"}, &clientcmdapi.Context{Cluster: "lost"}
	if got, err := selectMembers(membersOfKubeconfig(broken), nil); err != nil || !slices.Equal(names(got), []string{"a", "c", "d"}) {
		t.Errorf("contexts without a cluster: %v, %v", names(got), err)
	}
}

// TestFolder: every file counts, and a broken one is reported.
func TestFolder(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, c *clientcmdapi.Config) {
		t.Helper()
		if err := clientcmd.WriteToFile(*c, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	text := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("east.yaml", config("admin=a/x", "east=b/x"))
	write("west", config("admin=c/x"))
	write("zone", config("admin@west=d/x"))
	text("broken", "apiVersion: v1\nkind: Config\nclusters: 7\n")
	text("pod.yaml", "apiVersion: v1\nkind: Pod\n")
	text("empty", "")
	for _, none := range []string{"ca.crt", "admin.key", "east.yaml.lock", ".hidden"} {
		text(none, "no kubeconfig")
	}
	if err := os.Mkdir(filepath.Join(folder, "older"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	members, err := membersOfFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	got := names(members)
	want := []string{"broken", "admin@east.yaml", "east", "empty", "link", "pod.yaml", "admin@west", "admin@west@zone"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, m := range members {
		if bad := slices.Contains([]string{"broken", "pod.yaml", "empty", "link"}, m.Name); bad != (m.Err != nil) {
			t.Errorf("%s: %v", m.Name, m.Err)
		}
		if m.Err != nil && !strings.Contains(m.Err.Error(), m.File) {
			t.Errorf("%s does not name its file: %v", m.Name, m.Err)
		}
	}
	chosen, err := selectMembers(members, []string{"admin"})
	if want := []string{"admin@east.yaml", "admin@west", "broken", "empty", "link", "pod.yaml"}; err != nil || !slices.Equal(names(chosen), want) {
		t.Errorf("by context, and every file of which nobody knows: %q, %v", names(chosen), err)
	}
	if flags := chosen[0].Flags(); !slices.Equal(flags, []string{"--context=admin", "--kubeconfig=" + filepath.Join(folder, "east.yaml")}) {
		t.Errorf("what kubectl needs: %v", flags)
	}
	for _, missing := range []string{filepath.Join(folder, "none"), filepath.Join(folder, "older")} {
		if _, err := membersOfFolder(missing); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s: %v", missing, err)
		}
	}
}

// TestREST: the flags of the command apply to every cluster, and no program may ask at the
// keyboard.
func TestREST(t *testing.T) {
	c := config("a=one/x")
	c.AuthInfos["a"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "login", InteractiveMode: clientcmdapi.AlwaysExecInteractiveMode}}
	flags := genericclioptions.NewConfigFlags(true)
	*flags.Impersonate, *flags.ImpersonateGroup, *flags.Timeout, *flags.Insecure = "jane", []string{"sre"}, "7s", true
	*flags.ImpersonateUserExtra = []string{"scopes=view", "scopes=list"}
	rest, err := membersOfKubeconfig(c)[0].REST(overridesOf(flags))
	if err != nil {
		t.Fatal(err)
	}
	of := rest.Impersonate
	if rest.Host != "https://one" || of.UserName != "jane" || !slices.Equal(of.Groups, []string{"sre"}) || !slices.Equal(of.Extra["scopes"], []string{"view", "list"}) ||
		rest.Timeout.Seconds() != 7 || !rest.Insecure {
		t.Errorf("%+v", rest)
	}
	if !rest.ExecProvider.StdinUnavailable || c.AuthInfos["a"].Exec.StdinUnavailable {
		t.Error("the program may ask, or the kubeconfig was changed")
	}
	if _, err := (member{Name: "b", Context: "b", config: c}).REST(overridesOf(flags)); err == nil {
		t.Error("there is no such context")
	}
}
