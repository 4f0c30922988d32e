package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/controllerlog"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/metrics"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

const (
	// kubeletTakes bounds one request to a kubelet. A busy one takes seconds for its metrics;
	// one that is gone would hold the API server for half a minute.
	kubeletTakes = 15 * time.Second
	// kubeletSays bounds one answer: 500 pods of 50 KB, or the metrics of as many.
	kubeletSays = 32 << 20
)

var errTooMuch = errors.New("the kubelet's answer is longer than 32 MiB")

// Kubelet asks the kubelet of the node, through the API server, for its pods, its metrics
// and, where the node allows it, the failures in its log. A part that cannot be read is a gap
// of the view, except the log, which few nodes give to anybody. It returns an error only
// where the context has ended.
func (c *Cluster) Kubelet(ctx context.Context, node types.NodeName) (*trace.KubeletView, error) {
	view := &trace.KubeletView{}
	for _, question := range []struct {
		kind snapshot.Kind
		path string
		take func(io.Reader) error
	}{
		{trace.KubeletPods, "pods", func(in io.Reader) (err error) { view.Pods, err = decodePods(in); return err }},
		{trace.KubeletMetrics, "metrics", func(in io.Reader) (err error) {
			view.Samples, err = metrics.Decode(in, trace.KubeletFamilies())
			return err
		}},
	} {
		err := c.askKubelet(ctx, c.kubelet(node).Suffix(question.path), question.take)
		if ctx.Err() != nil {
			return nil, c.Explain(context.Cause(ctx))
		}
		if err != nil {
			view.Gaps = append(view.Gaps, c.kubeletGap(question.kind, node, err))
		}
	}
	_ = c.askKubelet(ctx, c.kubeletLog(node), func(in io.Reader) (err error) {
		view.Failures, err = controllerlog.ReadKubelet(in, time.Now().Add(24*time.Hour)) // it only supplies the year
		return err
	})
	if ctx.Err() != nil {
		return nil, c.Explain(context.Cause(ctx))
	}
	return view, nil
}

func (c *Cluster) kubelet(node types.NodeName) *rest.Request {
	return c.client[corev1.GroupName].Get().Resource(string(snapshot.Nodes)).Name(string(node)).SubResource("proxy")
}

// logged matches the lines of the kubelet's log that are asked for, in Go's, journalctl's and
// Windows' regular expressions: those with which a kubelet starts, and those about an operation that
// failed, an unmount that could not begin, a failed wait for one and a pod object that could not be
// deleted. The journal has each line by itself: the further lines of a failed mount or unmount are
// asked for, too, with the line before them (checkUmountError and mountSensitive,
// mount-utils/mount_linux.go).
const logged = `Kubelet version|No retries permitted until|operationExecutor\.Unmount|Error syncing pod.*mounted volumes=|Failed to delete status for pod|mount failed: |^(Unmounting arguments|Mounting command|Mounting arguments|Output): `

// kubeletLog asks for these lines, the last ones of half a day. The kubelet hands the time to
// journalctl, which reads it in its own zone: the last minutes are included in each zone.
// NodeLogQuery is on from 1.36 where the kubelet's
// enableSystemLogQuery is; before, its feature gate must be on, too. Without the slash at the
// end of the path the kubelet handles the request elsewhere.
func (c *Cluster) kubeletLog(node types.NodeName) *rest.Request {
	return c.client[corev1.GroupName].Get().AbsPath("/api/v1/nodes/"+url.PathEscape(string(node))+"/proxy/logs/").Param("query", "kubelet").Param("pattern", logged).
		Param("tailLines", "10000").Param("sinceTime", time.Now().UTC().Add(-12*time.Hour-10*time.Minute).Format(time.RFC3339))
}

func (c *Cluster) askKubelet(ctx context.Context, request *rest.Request, take func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, kubeletTakes)
	defer cancel()
	body, err := request.MaxRetries(0).SetHeader("Accept", "*/*").Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return take(&bounded{body, kubeletSays, errTooMuch})
}

func (c *Cluster) kubeletGap(kind snapshot.Kind, node types.NodeName, err error) snapshot.Gap {
	gap := snapshot.Gap{Kind: kind, Reason: snapshot.ReasonUnavailable, Detail: fmt.Sprintf("the kubelet of %s: %s", node, c.Explain(err))}
	var undecodable *metrics.Undecodable
	switch {
	case apierrors.IsForbidden(err):
		gap.Reason, gap.Detail = snapshot.ReasonForbidden, "it takes the right to get nodes/proxy"
	case errors.Is(err, errTooMuch):
		gap.Reason, gap.Detail = snapshot.ReasonTruncated, errTooMuch.Error()
	case errors.As(err, &undecodable):
		gap.Reason, gap.Detail = snapshot.ReasonUndecodable, oneLine(err.Error())
	}
	return gap
}

// decodePods reads the kubelet's list of its pods, which is JSON in all releases.
func decodePods(in io.Reader) ([]*corev1.Pod, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var list struct {
		Kind  string        `json:"kind"`
		Items []*corev1.Pod `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, &metrics.Undecodable{Err: err}
	}
	if list.Kind != "PodList" {
		return nil, &metrics.Undecodable{Err: fmt.Errorf("kind %q in place of PodList", list.Kind)}
	}
	pods := slices.DeleteFunc(list.Items, func(p *corev1.Pod) bool { return p == nil })
	for _, pod := range pods {
		trim.Object(pod)
	}
	return pods, nil
}
