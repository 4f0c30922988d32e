package cluster

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// renewing has an API server whose Date is off, and sources that renew, each with how
// far its own clock is off.
type renewing struct {
	*api
	mu      sync.Mutex
	reads   int
	sources map[string]time.Duration // by namespace/name
}

func newRenewing(t *testing.T, off time.Duration, sources map[string]time.Duration) *renewing {
	r := &renewing{api: newAPIWithoutSocket(t), sources: sources}
	r.date, r.stands = serverTime.Add(off), true
	r.handle(leasesPath, func(*http.Request) (int, runtime.Object) { return http.StatusOK, r.leases() })
	return r
}

func (r *renewing) leases() *coordinationv1.LeaseList {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	list := &coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	for source, off := range r.sources {
		namespace, name, _ := strings.Cut(source, "/")
		list.Items = append(list.Items, coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: serverTime.Add(off - time.Second + time.Duration(r.reads)*time.Millisecond)}},
		})
	}
	return list
}

// TestDateAhead looks twice while leases are renewed. One look believes any Date that no
// object is later than; the second one knows better.
func TestDateAhead(t *testing.T) {
	const kcm, n1, n2, n3 = "kube-system/kube-controller-manager", "kube-node-lease/n1", "kube-node-lease/n2", "kube-node-lease/n3"
	for name, test := range map[string]struct {
		off     time.Duration
		sources map[string]time.Duration
		// want is TakenAt of the second look, from the true time.
		want time.Duration
		err  string
	}{
		"right":                           {sources: map[string]time.Duration{kcm: 0}},
		"ahead":                           {off: 15 * time.Minute, sources: map[string]time.Duration{kcm: 0}, err: "it is 15m1s ahead of what Lease kube-system/kube-controller-manager shows"},
		"ahead, and only kubelets renew":  {off: 15 * time.Minute, sources: map[string]time.Duration{n1: 0}, err: "ahead of what Lease kube-node-lease/n1 shows"},
		"a little more than may be":       {off: 2*time.Minute + 2*time.Second, sources: map[string]time.Duration{kcm: 0}, err: "ahead of"},
		"within what may be: the smaller": {off: 90 * time.Second, sources: map[string]time.Duration{kcm: 0}},
		"a lease that any user may write": {off: 15 * time.Minute, sources: map[string]time.Duration{"shop/external-attacher-leader-a": 0}, want: 15 * time.Minute},
		"the machine of the API server is wrong as a whole": {off: 15 * time.Minute,
			sources: map[string]time.Duration{kcm: 15 * time.Minute, n1: 15 * time.Minute, n2: 0, n3: 0}, err: "ahead of what Lease kube-node-lease"},
		"one kubelet's clock is behind": {sources: map[string]time.Duration{n1: -20 * time.Minute, n2: 0, n3: 0}},
		"the only kubelets are behind":  {sources: map[string]time.Duration{n1: -20 * time.Minute}, err: "ahead of"},
		"nothing renews":                {off: 15 * time.Minute, want: 15 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			a := newRenewing(t, test.off, test.sources)
			c := a.cluster(Options{})
			first, err := c.Snapshot(t.Context())
			if err != nil || !first.TakenAt.Equal(serverTime.Add(test.off)) {
				t.Fatalf("the first look: %v", err)
			}
			s, err := c.Snapshot(t.Context())
			switch {
			case test.err != "":
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v", err)
				}
			case err != nil:
				t.Error(err)
			case s.TakenAt.Sub(serverTime.Add(test.want)).Abs() > 5*time.Second:
				t.Errorf("taken at %s", s.TakenAt)
			}
		})
	}
}

// TestProveClock: before a write something must have been renewed, and the wait for it is
// bounded.
func TestProveClock(t *testing.T) {
	const kcm = "kube-system/kube-controller-manager"
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", fmt.Errorf("no"))
	heartbeats := func(a *renewing) {
		beats := 0
		a.fail(leasesPath, forbidden)
		a.fail("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", forbidden)
		a.handle("/api/v1/nodes", func(*http.Request) (int, runtime.Object) {
			beats++
			at := metav1.Time{Time: serverTime.Add(-time.Minute + time.Duration(beats)*time.Second)}
			return http.StatusOK, &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Node{{
				ObjectMeta: metav1.ObjectMeta{Name: "n1"},
				Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: at}}},
			}}}
		})
	}
	for name, test := range map[string]struct {
		off     time.Duration
		sources map[string]time.Duration
		before  func(*renewing)
		err     string
	}{
		"right":               {sources: map[string]time.Duration{kcm: 0}},
		"ahead":               {off: 15 * time.Minute, sources: map[string]time.Duration{kcm: 0}, err: "ahead of what Lease kube-system"},
		"heartbeats":          {before: heartbeats},
		"heartbeats, ahead":   {off: 15 * time.Minute, before: heartbeats, err: "ahead of what the heartbeat of Node n1 shows"},
		"nothing is renewed":  {err: "no lease of kube-system or kube-node-lease was renewed within 25s"},
		"nothing may be read": {before: func(a *renewing) { heartbeats(a); a.fail("/api/v1/nodes", forbidden) }, err: "leases could not be read"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newRenewing(t, test.off, test.sources)
				if test.before != nil {
					test.before(a)
				}
				err := a.cluster(Options{}).ProveClock(t.Context())
				if (err == nil) != (test.err == "") || err != nil && (!strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "\n")) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// TestProofHolds: what was proven bounds each later Date, also where nothing is renewed any
// more or the leases cannot be read.
func TestProofHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newRenewing(t, 0, map[string]time.Duration{"kube-system/kube-controller-manager": 0})
		c := a.cluster(Options{})
		if err := c.ProveClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.serve(leasesPath, &coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}})
		if _, err := c.Snapshot(t.Context()); err != nil {
			t.Error(err)
		}
		a.api.mu.Lock()
		a.date = a.date.Add(15 * time.Minute) // another of three servers answers
		a.api.mu.Unlock()
		if _, err := c.Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), "ahead of what Lease") {
			t.Errorf("%v", err)
		}
	})
}

// TestProofAges: time that went by since a renewal was seen counts.
func TestProofAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r renewals
		look := func(renewed time.Time) {
			now := time.Now()
			s := snapshot.New(renewed, snapshot.Source{}, snapshot.Objects{Leases: []*coordinationv1.Lease{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "a"}, Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: renewed}},
			}}}, nil)
			r.note(s, map[snapshot.Kind]window{snapshot.Leases: {now, now}})
		}
		look(serverTime)
		if r.demand() {
			t.Fatal("one look proves something")
		}
		time.Sleep(10 * time.Second)
		look(serverTime.Add(9 * time.Second))
		if !r.demand() {
			t.Fatal("two looks prove nothing")
		}
		time.Sleep(time.Hour)
		later := serverTime.Add(time.Hour + 9*time.Second)
		if date, err := r.bound(later, time.Now()); err != nil || !date.Equal(later) {
			t.Errorf("%s, %v", date, err)
		}
		if date, err := r.bound(later.Add(time.Minute), time.Now()); err != nil || !date.Equal(later.Add(10*time.Second)) {
			t.Errorf("%s, %v: the renewal may have been made 10 s before it was read", date, err)
		}
		if _, err := r.bound(later.Add(snapshot.ClockTolerance+time.Second), time.Now()); err == nil {
			t.Error("a Date that is too far ahead is believed")
		}
	})
}
