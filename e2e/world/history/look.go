package history

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// LookEvery is the time between two looks.
const LookEvery = 15 * time.Second

// look looks once, as the command does, and keeps the report as its JSON has it.
func (w *World) look(ctx context.Context) (claims.Look, error) {
	at := time.Now()
	c, err := cluster.New(w.Server.Config("kubectl-volume-doctor"), cluster.Options{})
	if err != nil {
		return claims.Look{}, err
	}
	defer c.Close()
	s, err := c.Snapshot(ctx)
	if err != nil {
		return claims.Look{}, fmt.Errorf("look at %s: %w", clock(w.Since()), err)
	}
	view := repair.Look(s, diagnose.Options{}, repair.Consent{})
	repair.Propose(view)
	text, err := json.Marshal(view.Report)
	if err != nil {
		return claims.Look{}, err
	}
	l := claims.Look{At: at}
	return l, json.Unmarshal(text, &l.Report)
}

// watch looks again and again until the context ends.
func (w *World) watch(ctx context.Context) (looks []claims.Look, err error) {
	said := ""
	for {
		select {
		case <-ctx.Done():
			return looks, nil
		case <-time.After(LookEvery):
		}
		l, err := w.look(ctx)
		if ctx.Err() != nil {
			return looks, nil
		}
		if err != nil {
			return looks, err
		}
		looks = append(looks, l)
		if now := l.Key(); now != said {
			w.Say("look: %s", strings.ReplaceAll(l.String(), "\n", "\n      "))
			said = now
		}
	}
}
