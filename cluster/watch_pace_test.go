package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// listKinds are the lists' kinds by their resource.
var listKinds = map[string]string{
	"pods": "PodList v1", "nodes": "NodeList v1", "events": "EventList v1", "persistentvolumes": "PersistentVolumeList v1",
	"persistentvolumeclaims": "PersistentVolumeClaimList v1", "leases": "LeaseList coordination.k8s.io/v1", "deployments": "DeploymentList apps/v1",
	"volumeattachments": "VolumeAttachmentList storage.k8s.io/v1", "csinodes": "CSINodeList storage.k8s.io/v1",
	"csidrivers": "CSIDriverList storage.k8s.io/v1", "storageclasses": "StorageClassList storage.k8s.io/v1",
}

// TestWatchThatEndsAtOnce: an API server that ends each watch as soon as it begins is
// asked less and less often, not for all kinds at the same moments, and while nothing
// is followed there is a gap. Time is the bubble's: nobody waits.
func TestWatchThatEndsAtOnce(t *testing.T) {
	const watched = 10 * time.Minute
	expired := `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}}`
	for name, test := range map[string]struct {
		code int
		body string
	}{
		"410":                 {http.StatusGone, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}`},
		"410 in the stream":   {http.StatusOK, expired},
		"an end":              {http.StatusOK, ""},
		"a bookmark, and end": {http.StatusOK, `{"type":"BOOKMARK","object":{"kind":"%KIND","apiVersion":"%VERSION","metadata":{"resourceVersion":"7"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var mu sync.Mutex
				requests, pods, nodes := map[string]int{}, []time.Time{}, []time.Time{}
				answer := func(r *http.Request) (*http.Response, error) {
					resource := path.Base(r.URL.Path)
					kind, version, _ := strings.Cut(listKinds[resource], " ")
					mu.Lock()
					if requests[resource]++; requests[resource] > 500 {
						cancel() // it would go on for ever
					}
					mu.Unlock()
					code, body := http.StatusOK, `{"gitVersion":"v1.36.3"}`
					switch {
					case resource == "version":
					case r.URL.Query().Has("watch"):
						code = test.code
						body = strings.NewReplacer("%KIND", strings.TrimSuffix(kind, "List"), "%VERSION", version).Replace(test.body)
						mu.Lock()
						switch resource {
						case "pods":
							pods = append(pods, time.Now())
						case "nodes":
							nodes = append(nodes, time.Now())
						}
						mu.Unlock()
					default:
						body = fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"7"},"items":[]}`, kind, version)
					}
					header := http.Header{"Content-Type": {"application/json"}, "Date": {serverTime.Format(http.TimeFormat)}}
					return &http.Response{StatusCode: code, ProtoMajor: 1, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, ctx.Err()
				}
				c, err := New(&rest.Config{Host: "http://server", Transport: roundTripper(answer)}, Options{})
				if err != nil {
					t.Fatal(err)
				}
				w, err := c.Watch(ctx)
				if err != nil {
					t.Fatal(err)
				}
				gaps := 0
				for range 20 {
					time.Sleep(watched / 20)
					s, err := w.Snapshot(nil)
					if err != nil {
						t.Fatal(err)
					}
					if !s.Complete(snapshot.Pods) {
						gaps++
					}
				}
				cancel()
				w.Wait()
				for resource, n := range requests {
					// A list and two watches, some seconds apart at the end.
					if most := int(watched / (5 * time.Second)); n > most {
						t.Errorf("%d requests for the %s in %s, more than %d", n, resource, watched, most)
					}
				}
				if gaps < 10 {
					t.Errorf("%d of 20 looks had a gap", gaps)
				}
				if len(pods) < 10 || len(nodes) < 10 || pods[8].Equal(nodes[8]) {
					t.Errorf("pods are asked for at %v, nodes at %v", pods, nodes)
				}
			})
		})
	}
}

// TestForeignEvents: an event about something else is not left out: what is followed is
// a gap until it is read again.
func TestForeignEvents(t *testing.T) {
	nameless := webPod("11")
	nameless.Name = ""
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "11"}}
	for name, object := range map[string]any{"nameless": nameless, "another kind": node} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			a.noProtobuf = true
			s := a.streams()
			a.serve(podsPath, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: []corev1.Pod{*webPod("9")}})
			w := begin(t, a, Options{})
			until(t, w, "the pod and its stream", func(now *snapshot.Snapshot) bool { return len(now.Pods) == 1 && s.stream(podsPath) != nil })
			s.stream(podsPath) <- event(t, "ADDED", object)
			until(t, w, "a gap, or another list", func(now *snapshot.Snapshot) bool {
				lists := 0
				for _, r := range a.to(podsPath) {
					if len(r.query["watch"]) == 0 {
						lists++
					}
				}
				return !now.Complete(snapshot.Pods) || lists > 1
			})
		})
	}
}

// TestForeignListsOfAWatch: the lists of a watch are checked as all others are.
func TestForeignListsOfAWatch(t *testing.T) {
	for name, list := range map[string]*corev1.PodList{
		"nameless": podsNamed("a", ""), "twice": podsNamed("a", "a"),
		"a token again": with(podsNamed(), func(l *corev1.PodList) { l.Continue = "x" }),
	} {
		a := newAPI(t)
		a.noProtobuf = true
		a.streams()
		a.serve(podsPath, list)
		w := begin(t, a, Options{})
		s, err := w.Snapshot(nil)
		if err != nil || s.Complete(snapshot.Pods) {
			t.Errorf("%s: %d pods, %+v, %v", name, len(s.Pods), s.Gaps, err)
		}
	}
}
