// Package metrics reads the metrics of kubelets and of kube-controller-manager, and finds
// where the leading one serves them.
package metrics

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Sample is one value of a server's metrics; for a histogram, the number of observations.
type Sample struct {
	Family string
	Labels map[string]string
	Value  float64
}

// Undecodable is the error for an answer that neither a kubelet nor kube-controller-manager
// gives.
type Undecodable struct{ Err error }

func (u *Undecodable) Error() string { return "not what such a server answers: " + u.Err.Error() }

// Unwrap is the underlying error.
func (u *Undecodable) Unwrap() error { return u.Err }

// MostLine bounds a line of metrics.
const MostLine = 1 << 20

// Decode reads the named families, in their order. Lines of others are dropped before they
// are parsed: a kubelet has tens of thousands.
func Decode(in io.Reader, names []string) ([]Sample, error) {
	wanted := map[string]bool{}
	for _, family := range names {
		wanted[family] = true
	}
	var kept bytes.Buffer
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, MostLine)
	for lines.Scan() {
		name, isType := strings.CutPrefix(lines.Text(), "# TYPE ")
		name = name[:max(0, strings.IndexAny(name+" ", "{ \t"))]
		if wanted[name] || !isType && wanted[strings.TrimSuffix(name, "_count")] {
			kept.Write(lines.Bytes())
			kept.WriteByte('\n')
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, &Undecodable{err}
	} else if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&kept)
	if err != nil {
		return nil, &Undecodable{err}
	}
	var samples []Sample
	for _, name := range names {
		for _, m := range families[name].GetMetric() {
			value := number(m)
			if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
				return nil, &Undecodable{fmt.Errorf("%s is %v", name, value)}
			}
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			samples = append(samples, Sample{Family: name, Labels: labels, Value: value})
		}
	}
	return samples, nil
}

func number(m *dto.Metric) float64 {
	switch {
	case m.GetHistogram() != nil:
		return float64(m.GetHistogram().GetSampleCount())
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	default:
		return m.GetUntyped().GetValue()
	}
}
