package metrics

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// usualPort is kube-controller-manager's port unless --secure-port says otherwise.
const usualPort = 10257

// Leader returns the pod's name and the identity of the leading kube-controller-manager: the
// holder of its lease, whose identity is the host's name and something random. The name of a
// static pod ends in the name of its node.
func Leader(leases []coordinationv1.Lease) (pod, identity string, err error) {
	leases = slices.DeleteFunc(slices.Clone(leases), func(l coordinationv1.Lease) bool { return l.Name != reconcile.ControllerManager })
	if len(leases) != 1 || leases[0].Spec.HolderIdentity == nil || *leases[0].Spec.HolderIdentity == "" {
		return "", "", errors.New("no lease shows which kube-controller-manager leads, as in most managed clusters")
	}
	identity = *leases[0].Spec.HolderIdentity
	host := strings.ToLower(identity[:max(0, strings.LastIndexByte(identity, '_'))])
	pod = reconcile.ControllerManager + "-" + host
	if host == "" || len(validation.IsDNS1123Subdomain(pod)) > 0 {
		return "", "", fmt.Errorf("the holder of its lease, %s, is not named as kube-controller-manager names itself", safetext.Quote(identity))
	}
	return pod, identity, nil
}

// HeldBy reports whether this identity holds the lease, which is nil where there is none.
func HeldBy(lease *coordinationv1.Lease, identity string) bool {
	return lease != nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == identity
}

// RunningPod returns the leader's pod.
func RunningPod(pods []corev1.Pod, name string) (*corev1.Pod, error) {
	at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == name && p.Status.Phase == corev1.PodRunning })
	if at < 0 {
		return nil, fmt.Errorf("no pod kube-system/%s runs, of the kube-controller-manager that leads", name)
	}
	return &pods[at], nil
}

// Started reads from the pod's manifest with which release, which flags of snapshot.Settings
// and which port for its metrics kube-controller-manager was started.
func Started(pod *corev1.Pod) (release string, flags map[string]string, port int, err error) {
	var line []string
	for _, container := range pod.Spec.Containers {
		for _, word := range slices.Concat(container.Command, container.Args) {
			line = append(line, strings.Fields(word)...) // some are started through a shell
		}
		_, tag, _ := strings.Cut(container.Image[strings.LastIndexByte(container.Image, '/')+1:], ":")
		if tag, _, _ = strings.Cut(tag, "@"); strings.HasPrefix(tag, "v1.") && reconcile.IsRelease(tag) {
			release = tag
		}
	}
	flags = map[string]string{}
	for _, name := range snapshot.Settings {
		if value, ok := setting(line, name); ok {
			flags[name] = value
		}
	}
	value, ok := setting(line, "secure-port")
	if !ok {
		return release, flags, usualPort, nil
	}
	number, err := strconv.ParseUint(value, 10, 16)
	if err != nil || number == 0 {
		return release, flags, 0, fmt.Errorf("%s has no secure port (--secure-port=%s)", pod.Name, safetext.Redact(value))
	}
	return release, flags, int(number), nil
}

// setting is the value of a flag in a command line. The last value counts, except for feature
// gates, which add up. A flag without a value is a switch.
func setting(line []string, name string) (value string, ok bool) {
	const longest, mostGates = 100, 10_000
	for _, word := range line {
		flag, text, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if !strings.HasPrefix(word, "--") || strings.ReplaceAll(flag, "_", "-") != name {
			continue
		}
		before := value
		if value, ok = strings.Trim(text, `"'`), true; !has {
			value = "true"
		}
		if name == reconcile.FeatureGatesFlag {
			value = strings.TrimPrefix(before+","+value, ",")
			value = value[:min(len(value), mostGates)]
			continue
		}
		value = value[:min(len(value), longest)]
	}
	return value, ok
}
