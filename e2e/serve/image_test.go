package serve_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestImage: the program that the chart runs, as the image's own user, in its own files alone, with the
// arguments of the chart and what a pod is given, serves.
func TestImage(t *testing.T) {
	if os.Getuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("only root on Linux may change the root directory and the user, and runs what the image has")
	}
	cmd := exec.Command("make", "-s", "image", "IMAGE_PLATFORMS=linux/"+runtime.GOARCH)
	cmd.Dir = "../.."
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	config, root := unpack(t, "../../build/image/image.tar")
	if config.OS != "linux" || config.Architecture != runtime.GOARCH {
		t.Errorf("the image is for %s/%s", config.OS, config.Architecture)
	}
	user, group, _ := strings.Cut(config.Config.User, ":")
	uid, err := strconv.ParseUint(user, 10, 32)
	must(t, err)
	gid, err := strconv.ParseUint(group, 10, 32)
	must(t, err)

	install(t, "events=true,reportPage=true")
	installed, err := cluster.Client().AppsV1().Deployments(namespace).Get(t.Context(), "volume-doctor", metav1.GetOptions{})
	must(t, err)
	spec := installed.Spec.Template.Spec
	container := spec.Containers[0]
	if pod := spec.SecurityContext; uint64(*pod.RunAsUser) != uid || uint64(*pod.RunAsGroup) != gid {
		t.Errorf("the pod runs as %d:%d, and the image is made for %s", *pod.RunAsUser, *pod.RunAsGroup, config.Config.User)
	}
	api := mounts(t, root)

	program := container.Command // what the chart names, in place of the image's own entrypoint
	if len(program) == 0 {
		program = config.Config.Entrypoint
	}
	argv := slices.Concat(program, container.Args, []string{"--listen=127.0.0.1:0"})
	p := run(t, &exec.Cmd{
		Path: argv[0], Args: argv, Dir: container.WorkingDir,
		Env:         append(slices.Clone(config.Config.Env), "KUBERNETES_SERVICE_HOST="+api.Hostname(), "KUBERNETES_SERVICE_PORT="+api.Port()),
		SysProcAttr: &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}},
	})
	p.until(t, time.Minute, "it leads and has looked, without a gap", func(m scrape) bool {
		return m.has("volume_doctor_leader", 1) && m.count("volume_doctor_last_look_timestamp_seconds") == 1 && m.count("volume_doctor_gaps") == 0
	})
	if code, text := p.get(t, "/readyz", ""); code != http.StatusOK {
		t.Errorf("/readyz: %d %s", code, text)
	}
	held, err := cluster.Client().CoordinationV1().Leases(namespace).Get(t.Context(), lease, metav1.GetOptions{})
	must(t, err) // in the namespace of its service account
	if held.Spec.HolderIdentity == nil || *held.Spec.HolderIdentity == "" {
		t.Error("nobody holds the Lease")
	}
	if code := p.end(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
}

// mounts puts what a pod of the chart finds beside the image's files into root, and gives
// the address of the API server.
func mounts(t *testing.T, root string) *url.URL {
	t.Helper()
	rest := cluster.RESTConfig()
	ca := rest.CAData
	if len(ca) == 0 {
		var err error
		ca, err = os.ReadFile(rest.CAFile)
		must(t, err)
	}
	for path, text := range map[string]string{
		"var/run/secrets/kubernetes.io/serviceaccount/token":     serviceAccountToken(t),
		"var/run/secrets/kubernetes.io/serviceaccount/namespace": namespace,
		"var/run/secrets/kubernetes.io/serviceaccount/ca.crt":    string(ca),
		"etc/volume-doctor/..data":                               "", // an optional ConfigMap that is not there
	} {
		must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o644))
	}
	api, err := url.Parse(rest.Host)
	must(t, err)
	return api
}

// image is what is used of an image's configuration.
type image struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Config       struct {
		User       string
		Env        []string
		Entrypoint []string
	} `json:"config"`
}

// unpack checks the digests of an OCI archive with one image, and puts the image's files
// into a folder.
func unpack(t *testing.T, archive string) (config image, root string) {
	t.Helper()
	file, err := os.Open(archive)
	must(t, err)
	defer func() { _ = file.Close() }()
	files := map[string][]byte{}
	each(t, file, func(h *tar.Header, content []byte) { files[h.Name] = content })

	type descriptor struct {
		Digest string `json:"digest"`
		Size   int    `json:"size"`
	}
	type document struct {
		Manifests []descriptor `json:"manifests"`
		Config    descriptor   `json:"config"`
		Layers    []descriptor `json:"layers"`
	}
	blob := func(d descriptor) []byte {
		text := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		if got := fmt.Sprintf("sha256:%x", sha256.Sum256(text)); got != d.Digest || len(text) != d.Size {
			t.Fatalf("%d bytes with the digest %s stand for %+v", len(text), got, d)
		}
		return text
	}
	var layout, index, manifest document
	must(t, json.Unmarshal(files["index.json"], &layout))
	must(t, json.Unmarshal(blob(layout.Manifests[0]), &index))
	must(t, json.Unmarshal(blob(index.Manifests[0]), &manifest))
	must(t, json.Unmarshal(blob(manifest.Config), &config))

	root = t.TempDir()
	must(t, os.Chmod(root, 0o755))               //nolint:gosec // another user looks into it
	must(t, os.Chmod(filepath.Dir(root), 0o755)) //nolint:gosec // likewise
	for _, layer := range manifest.Layers {
		content, err := gzip.NewReader(bytes.NewReader(blob(layer)))
		must(t, err)
		each(t, content, func(h *tar.Header, content []byte) {
			must(t, os.WriteFile(filepath.Join(root, filepath.Clean("/"+h.Name)), content, h.FileInfo().Mode()))
		})
	}
	return config, root
}

// each calls do for every file of a tar archive.
func each(t *testing.T, archive io.Reader, do func(*tar.Header, []byte)) {
	t.Helper()
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		do(h, content)
	}
}
