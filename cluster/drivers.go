package cluster

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

const (
	// driverTakes bounds one request for a driver's own objects: they are an extra source,
	// which must not hold up the reading.
	driverTakes = 15 * time.Second
	// driverPage is the number of a driver's objects that one request asks for.
	driverPage = 1000
)

// drivers reads the installed drivers' own objects, where those are wanted, before the
// objects with which they are compared: a driver's object that is younger than those proves
// nothing about them.
func (r *reading) drivers(ctx context.Context) error {
	if r.options.Drivers == nil {
		return nil
	}
	if err := r.all(ctx, r.lists(func(k kind) bool { return k.name() == snapshot.CSIDrivers })); err != nil {
		return err
	}
	r.driverLists(ctx)
	return nil
}

// driverLists reads the own objects of the drivers in r. A driver's objects count as a whole
// or not at all. Objects that may not be read or do not exist are no gap.
func (r *reading) driverLists(ctx context.Context) {
	installed := func(k backend.Kind) bool {
		return slices.ContainsFunc(r.objects.CSIDrivers, func(d *storagev1.CSIDriver) bool { return d.Name == k.Driver })
	}
	for kinds := range backend.ByDriver {
		if !installed(kinds[0]) {
			continue
		}
		var all backend.Objects
		err := r.driverObjects(ctx, kinds, &all)
		var lists []*backend.List
		if err == nil {
			lists, err = all.Lists(r.now.read())
		}
		if err == nil {
			r.backends = append(r.backends, lists...)
		} else if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			r.options.Drivers(fmt.Sprintf("the objects of driver %s are not used: %s", kinds[0].Driver, safetext.RedactUser(oneLine(err.Error()))))
		}
	}
}

func (r *reading) driverObjects(ctx context.Context, kinds []backend.Kind, into *backend.Objects) error {
	left, objects := int64(backend.MaxSize), 0
	for _, k := range kinds {
		if k.Version == "" {
			var err error
			if k.Version, err = r.preferred(ctx, k.Group); err != nil {
				return err
			}
		}
		for next, first := "", true; first || next != ""; first = false {
			text, err := r.getJSON(ctx, "/apis/"+k.Group+"/"+k.Version+"/"+k.Resource, map[string]string{"limit": strconv.Itoa(driverPage), "continue": next}, left)
			if err != nil {
				return err
			}
			n := 0
			if n, next, err = into.AddPage(k, text); err != nil {
				return err
			}
			left -= int64(len(text))
			if objects += n; objects > backend.MaxVolumes || n == 0 && next != "" {
				return fmt.Errorf("more than %d objects, or a page without any", backend.MaxVolumes)
			}
		}
	}
	return nil
}

// preferred is the version of the group that the cluster prefers.
func (r *reading) preferred(ctx context.Context, group string) (string, error) {
	text, err := r.getJSON(ctx, "/apis/"+group, nil, maxVersion)
	if err != nil {
		return "", err
	}
	return backend.Preferred(text)
}

func (r *reading) getJSON(ctx context.Context, path string, params map[string]string, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, driverTakes)
	defer cancel()
	request := r.client[corev1.GroupName].Get().AbsPath(path).MaxRetries(0).SetHeader("Accept", "application/json")
	for name, value := range params {
		if value != "" {
			request.Param(name, value)
		}
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, r.Explain(err)
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(&bounded{body, most, tooMuch("the list of a driver's objects", most)})
	if err != nil {
		return nil, r.Explain(err)
	}
	return text, nil
}

// addDrivers gives the snapshot the facts from the drivers' objects. Those were read before
// the rest; a volume that is published nowhere has no object at Trident, and is added to its
// list.
func addDrivers(s *snapshot.Snapshot, lists []*backend.List) {
	for _, read := range lists {
		l := *read
		if l.Taken.After(s.TakenAt) {
			l.Taken = s.TakenAt
		}
		var handles []string
		for _, pv := range s.Volumes {
			if source := pv.Spec.CSI; source != nil && l.Format.Of(source.Driver) {
				handles = append(handles, source.VolumeHandle)
			}
		}
		l.Volumes = slices.Clone(l.Volumes) // the next snapshot starts from the same list
		l.Complete(handles)
		s.Backends = append(s.Backends, &l)
	}
}

// driversAgain is how long a watch uses the drivers' own objects before it reads them again.
// They stay valid for a quarter of an hour, and change with each attach.
const driversAgain = time.Minute

// driversFollowed holds a Watch's reading of the drivers' own objects.
type driversFollowed struct {
	mu sync.Mutex
	// asked reports whether they were read once, or could not be read.
	asked bool
	lists []*backend.List
}

// follow reads them again and again, once the CSIDrivers are known: they are not worth a
// watch each.
func (d *driversFollowed) follow(ctx context.Context, w *Watch, csiDrivers *following) {
	for !csiDrivers.began() {
		if Sleep(ctx, pollNeeds) != nil {
			return
		}
	}
	for {
		var now clock
		r := &reading{Cluster: w.quiet(), now: &now}
		csiDrivers.store.fill(&r.objects)
		r.driverLists(context.WithValue(ctx, clockKey{}, &now))
		d.take(r.backends)
		w.note()
		if Sleep(ctx, driversAgain) != nil {
			return
		}
	}
}

// take replaces the lists by the new ones. A list that could not be read again stays until it
// is too old to prove anything: that it could not be read does not heal its findings.
func (d *driversFollowed) take(read []*backend.List) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, before := range d.lists {
		if !slices.ContainsFunc(read, func(l *backend.List) bool { return l.Format == before.Format }) {
			read = append(read, before)
		}
	}
	d.asked, d.lists = true, read
}

func (d *driversFollowed) now() (asked bool, lists []*backend.List) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked, d.lists
}

// Notes returns a function that writes each note about the drivers' objects once and in one
// line; nil where those objects are not wanted.
func Notes(w io.Writer, wanted bool) func(string) {
	if !wanted {
		return nil
	}
	var mu sync.Mutex
	said := sets.New[string]()
	visible := func(r rune) rune {
		if safetext.Hidden(r) {
			return '?'
		}
		return r
	}
	return func(note string) {
		mu.Lock()
		defer mu.Unlock()
		if !said.Has(note) {
			said.Insert(note)
			fmt.Fprintf(w, "note: %s\n", strings.Map(visible, note))
		}
	}
}

// driverRights are the rights to the drivers' own objects.
func driverRights() []repair.Permission {
	var rights []repair.Permission
	for _, k := range backend.Kinds {
		rights = append(rights, repair.Permission{Verb: "list", Group: k.Group, Resource: k.Resource})
	}
	return rights
}
