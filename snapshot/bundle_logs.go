package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/archive"
)

// Log is a log file in a bundle.
type Log struct {
	// Path is the path of its file.
	Path string
	// Kubelet reports whether kubelets wrote the log, rather than kube-controller-manager.
	Kubelet bool
	// Node is the node whose kubelet wrote the log; "" if each line names its host.
	Node types.NodeName
}

// logOf recognizes the logs of kube-controller-manager and of kubelets by their paths:
//
//	namespaces/NAMESPACE/pods/POD/CONTAINER/CONTAINER/logs/current.log   must-gather
//	nodes/NODE/NODE_logs_kubelet.gz                                      must-gather
//	host_service_logs/ROLE/kubelet_service.log                           must-gather, of all nodes of the role
//	host_service_logs/windows/log_files/kubelet/kubelet.log              must-gather, of all nodes with Windows
//	cluster-resources/pods/logs/NAMESPACE/POD/CONTAINER.log              troubleshoot.sh
//	logs/NAMESPACE/POD/CONTAINER.log                                     support-bundle-kit
//	nodes/NODE.zip, with NODE/logs/kubelet.log or K3s' logs              support-bundle-kit
//	podlogs/NAMESPACE/POD/logs/CONTAINER.txt                             sonobuoy
//	NAMESPACE/POD/logs.txt                                               cluster-info dump
func logOf(p string) (Log, bool) {
	segments := strings.Split(strings.TrimSuffix(p, ".gz"), "/")
	n := len(segments)
	if n >= 3 && segments[n-3] == "nodes" && segments[n-1] == segments[n-2]+"_logs_kubelet" {
		return Log{p, true, types.NodeName(segments[n-2])}, true
	}
	if node, is := strings.CutSuffix(segments[n-1], ".zip"); is && n >= 2 && segments[n-2] == "nodes" {
		return Log{p, true, types.NodeName(node)}, true
	}
	if slices.Contains(segments[:n-1], "host_service_logs") && (segments[n-1] == "kubelet_service.log" || segments[n-1] == "kubelet.log") {
		return Log{Path: p, Kubelet: true}, true
	}
	switch segments[n-1] {
	case "current.log", "logs.txt", controllerManager + ".log", controllerManager + ".txt":
	default:
		return Log{}, false
	}
	for i, s := range segments[:n-1] {
		below := segments[i+1 : n-1]
		if len(below) > 0 && below[0] == "pods" {
			below = below[1:]
		}
		if !slices.Contains(controllerNamespaces, s) || len(below) == 0 || !strings.HasPrefix(below[0], controllerManager+"-") {
			continue
		}
		// A must-gather has a folder for each container; the other containers are helpers.
		container := slices.DeleteFunc(slices.Clone(below[1:]), func(s string) bool { return s == "logs" || s == controllerManager })
		return Log{Path: p}, len(container) == 0
	}
	return Log{}, false
}

// controllerNamespaces are the namespaces of kube-controller-manager's pods: static pods, as
// kubeadm makes them, and OpenShift's.
var controllerNamespaces = []string{"kube-system", "openshift-kube-controller-manager"}

// LogsFS calls read for each log below the directory. It does not follow links.
func LogsFS(fsys fs.FS, read func(Log, io.Reader) error) error {
	left := int64(MaxUnpacked)
	return fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		l, ok := logOf(p)
		if err != nil || !ok || !d.Type().IsRegular() {
			return err
		}
		f, err := fsys.Open(p)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		return readLog(l, f, &left, read)
	})
}

// Logs calls read for each log in the archive, and never if the input is no archive.
func Logs(r io.Reader, read func(Log, io.Reader) error) error {
	_, files, err := archive.Open(r, archive.Limits{Unpacked: MaxUnpacked, Files: MaxFiles})
	if err != nil || files == nil {
		return err
	}
	left, entries := int64(MaxUnpacked), 0
	for entry, err := range files {
		if err != nil {
			return err
		}
		if entries++; entries > MaxFiles {
			return fmt.Errorf("more than %d files in it", MaxFiles)
		}
		if l, ok := logOf(path.Clean(entry.Name)); ok && entry.Kind == archive.Regular {
			if err := readLog(l, entry.Text, &left, read); err != nil {
				return err
			}
		}
	}
	return nil
}

func readLog(l Log, in io.Reader, left *int64, read func(Log, io.Reader) error) error {
	if strings.HasSuffix(l.Path, ".zip") {
		logs := &nodeLogs{archive: in, left: left, close: func() {}}
		defer func() { logs.close() }()
		return read(l, logs)
	}
	if strings.HasSuffix(l.Path, ".gz") {
		var err error
		if in, err = archive.Unzipped(in, left, MaxUnpacked); err != nil {
			in = failingReader{err}
		}
	}
	return read(l, in)
}

// nodeLogs reads the logs of a node's kubelet in support-bundle-kit's archive of the node, one after the
// other. Where the node has no such service, journalctl says that it has no entries. The archive is opened
// by the first Read.
type nodeLogs struct {
	archive io.Reader
	left    *int64
	next    func() (archive.File, error, bool)
	close   func()
	log     io.Reader
}

func (l *nodeLogs) Read(p []byte) (int, error) {
	if l.next == nil {
		_, files, err := archive.Open(l.archive, archive.Limits{Unpacked: *l.left, Files: MaxFiles})
		if err == nil && files == nil {
			err = errors.New("it is no archive")
		}
		if err != nil {
			return 0, err
		}
		l.next, l.close = iter.Pull2(iter.Seq2[archive.File, error](files))
	}
	for {
		if l.log != nil {
			n, err := l.log.Read(p)
			if err == nil || !errors.Is(err, io.EOF) {
				return n, err
			}
			if l.log = nil; n > 0 {
				return n, nil
			}
		}
		f, err, more := l.next()
		switch {
		case !more:
			return 0, io.EOF
		case err != nil:
			return 0, err
		case f.Kind == archive.Regular && slices.Contains([]string{"kubelet.log", "k3s-service.log", "k3s-agent-service.log"}, path.Base(f.Name)):
			l.log = io.MultiReader(archive.Bounded(f.Text, l.left, MaxUnpacked), strings.NewReader("\n"))
		}
	}
}
