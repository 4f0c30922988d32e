package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
)

// Scrape is what one target answered at a moment. Metrics are in the text format, and ""
// where it did not answer.
type Scrape struct {
	Time    time.Time `json:"time"`
	Target  string    `json:"target"`
	Metrics string    `json:"metrics"`
}

// Alert is a stretch of time for which an alert was pending or firing.
type Alert struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	// Pending is when its expression held first; Firing is nil where it never fired, and
	// Ended where it has not ended by the last evaluation.
	Pending time.Time  `json:"pending"`
	Firing  *time.Time `json:"firing,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`
}

// every is the pause between two evaluations, as kube-prometheus sets it.
const every = 30 * time.Second

var (
	silent = slog.New(slog.DiscardHandler)
	syntax = parser.NewParser(parser.Options{})
)

func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{Logger: silent, MaxSamples: 50e6, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, Parser: syntax})
}

// evaluate runs the rules of the file over the scrapes as Prometheus does: samples come
// in at their times, what a scrape no longer has is stale, and every group is evaluated
// every 30 s from the first scrape to the last.
func evaluate(ctx context.Context, file string, scrapes []Scrape) ([]Alert, error) {
	db, err := teststorage.NewWithError()
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // it is in a temporary directory
	engine := newEngine()
	manager := rules.NewManager(&rules.ManagerOptions{
		NameValidationScheme: model.UTF8Validation,
		QueryFunc:            rules.EngineQueryFunc(engine, db), AppendableV2: db, Queryable: db, Context: ctx, Logger: silent, Parser: syntax,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	groups, errs := manager.LoadGroups(every, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	slices.SortStableFunc(scrapes, func(a, b Scrape) int { return a.Time.Compare(b.Time) })
	if len(scrapes) == 0 {
		return nil, errors.New("nothing was scraped")
	}
	var history history
	series := map[string]map[uint64]labels.Labels{}
	next := 0
	for at := scrapes[0].Time; !at.After(scrapes[len(scrapes)-1].Time); at = at.Add(every) {
		for ; next < len(scrapes) && !scrapes[next].Time.After(at); next++ {
			s := scrapes[next]
			if series[s.Target], err = ingest(ctx, db, s, series[s.Target]); err != nil {
				return nil, fmt.Errorf("the scrape at %s: %w", s.Time, err)
			}
		}
		var active []*rules.Alert
		for _, g := range groups {
			g.Eval(ctx, at)
			for _, r := range g.Rules() {
				if r.LastError() != nil {
					return nil, fmt.Errorf("%s at %s: %w", r.Name(), at, r.LastError())
				}
				if alerting, ok := r.(*rules.AlertingRule); ok {
					active = append(active, alerting.ActiveAlerts()...)
				}
			}
		}
		history.note(at, active)
	}
	return history.alerts, nil
}

// ingest stores a scrape with the labels of its target under honor_labels: true, and
// marks as stale what the scrape before had and this one has not.
func ingest(ctx context.Context, db storage.AppendableV2, s Scrape, before map[uint64]labels.Labels) (now map[uint64]labels.Labels, err error) {
	app, at := db.AppenderV2(ctx), s.Time.UnixMilli()
	put := func(l labels.Labels, v float64) error {
		_, err := app.Append(0, l, 0, at, v, nil, nil, storage.AppendV2Options{})
		return err
	}
	now = map[uint64]labels.Labels{}
	p := textparse.NewPromParser([]byte(s.Metrics), labels.NewSymbolTable(), false)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, v := p.Series()
		var exposed labels.Labels
		p.Labels(&exposed)
		l := withTarget(exposed, s.Target)
		now[l.Hash()] = l
		if err := put(l, v); err != nil {
			return nil, fmt.Errorf("%s: %w", l, err)
		}
	}
	for hash, l := range before {
		if _, there := now[hash]; !there {
			if err := put(l, math.Float64frombits(value.StaleNaN)); err != nil {
				return nil, err
			}
		}
	}
	return now, app.Commit()
}

// withTarget adds the labels that the operator gives to a pod's endpoint. honor_labels
// keeps what the target exposes, an empty label too.
func withTarget(exposed labels.Labels, pod string) labels.Labels {
	b := labels.NewBuilder(exposed)
	for name, text := range map[string]string{"job": "volume-doctor", "instance": pod + ":8080", "namespace": "volume-doctor", "pod": pod, "container": "volume-doctor"} {
		if !exposed.Has(name) {
			b.Set(name, text)
		}
	}
	return b.Labels()
}

// history keeps what became of each alert.
type history struct {
	alerts []Alert
	open   map[uint64]int
}

func (h *history) note(at time.Time, active []*rules.Alert) {
	open := map[uint64]int{}
	slices.SortFunc(active, func(a, b *rules.Alert) int { return cmp.Compare(a.Labels.String(), b.Labels.String()) })
	for _, a := range active {
		key := a.Labels.Hash()
		i, known := h.open[key]
		if !known {
			i = len(h.alerts)
			h.alerts = append(h.alerts, Alert{Name: a.Labels.Get(labels.AlertName), Labels: a.Labels.Map(), Pending: at})
		}
		if a.State == rules.StateFiring && h.alerts[i].Firing == nil {
			h.alerts[i].Firing = &at
		}
		open[key] = i
	}
	for key, i := range h.open {
		if _, still := open[key]; !still {
			h.alerts[i].Ended = &at
		}
	}
	h.open = open
}
