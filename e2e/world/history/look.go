package history

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// LookEvery is the time between two looks.
const LookEvery = 15 * time.Second

// connect connects the tool to the cluster. The caller closes it.
func (w *World) connect() (*cluster.Cluster, error) {
	return cluster.New(w.Server.Config("kubectl-volume-doctor"), cluster.Options{})
}

// read reads the objects, as the command does.
func (w *World) read(ctx context.Context, c *cluster.Cluster) (*snapshot.Snapshot, error) {
	s, err := c.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", clock(w.Since()), err)
	}
	return s, nil
}

// examine looks, as the command does that looks again and again: since is what the looks
// before found, as Report.FoundSince tells it.
func (w *World) examine(ctx context.Context, c *cluster.Cluster, since map[string]metav1.Time) (*repair.View, error) {
	s, err := w.read(ctx, c)
	if err != nil {
		return nil, err
	}
	view, _ := repair.Examine(s, reconcile.Options{}, repair.Consent{}, diagnose.Request{Since: since})
	return view, nil
}

// look keeps the report as its JSON has it.
func (w *World) look(ctx context.Context, c *cluster.Cluster, since map[string]metav1.Time) (claims.Look, error) {
	at := time.Now()
	view, err := w.examine(ctx, c, since)
	if err != nil {
		return claims.Look{}, err
	}
	text, err := json.Marshal(view.Report)
	if err != nil {
		return claims.Look{}, err
	}
	l := claims.Look{At: at, Until: time.Now(), Snapshot: view.Snapshot}
	l.Attachments, l.Attached = attachments(view.Snapshot)
	return l, json.Unmarshal(text, &l.Report)
}

// attachments are those that are not simply attached, and the entries of nodes that have none;
// attached are the names of the others.
func attachments(s *snapshot.Snapshot) (text string, attached []string) {
	for _, va := range s.VolumeAttachments {
		state := ""
		switch {
		case va.DeletionTimestamp != nil:
			state = "is being deleted since " + va.DeletionTimestamp.UTC().Format(time.TimeOnly)
		case !va.Status.Attached:
			state = "is not attached"
		default:
			attached = append(attached, va.Name)
			continue
		}
		for _, e := range []*storagev1.VolumeError{va.Status.AttachError, va.Status.DetachError} {
			if e != nil {
				state += ", refused"
			}
		}
		text += fmt.Sprintf("; %s on %s %s", *va.Spec.Source.PersistentVolumeName, va.Spec.NodeName, state)
	}
	for _, node := range s.Nodes {
		for _, a := range node.Status.VolumesAttached {
			pair := reconcile.VolumeNode{Volume: a.Name, Node: facts.NodeName(node)}
			if s.VolumeAttachment(facts.AttachmentName(pair)) == nil {
				text += fmt.Sprintf("; %s is listed on %s alone", a.Name, node.Name)
			}
		}
	}
	return text, attached
}

// watch looks again and again until the context ends, as the command does with --watch.
func (w *World) watch(ctx context.Context) (looks []claims.Look, err error) {
	c, err := w.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	said := ""
	var since map[string]metav1.Time
	for {
		select {
		case <-ctx.Done():
			return looks, nil
		case <-time.After(LookEvery - w.Since()%LookEvery):
		}
		l, err := w.look(ctx, c, since)
		if ctx.Err() != nil {
			return looks, nil
		}
		if err != nil {
			return looks, err
		}
		looks, since = append(looks, l), l.Report.FoundSince(since)
		if now := l.Key(); now != said {
			w.Say("look: %s", strings.ReplaceAll(l.String(), "\n", "\n      "))
			said = now
		}
	}
}
