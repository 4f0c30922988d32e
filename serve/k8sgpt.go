package serve

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// runPath is the one call that k8sgpt makes of a custom analyzer: by gRPC, without
// parameters and without a word on who calls (custom_analyzer.proto of
// github.com/k8sgpt-ai/schemas).
const runPath = "/schema.v1.CustomAnalyzerService/Run"

// The fields of the answer: of RunResponse, of Result, and of ErrorDetail.
const (
	responseResult protowire.Number = 1
	resultKind     protowire.Number = 1
	resultName     protowire.Number = 2
	resultError    protowire.Number = 3
	errorText      protowire.Number = 1
)

const (
	grpcType        = "application/grpc"
	grpcOK          = "0"
	grpcUnavailable = "14"
	// mostErrors is how many texts k8sgpt is told. Each goes to a language model.
	mostErrors = 50
	// longestRequest bounds what is read of a call, which has an empty message.
	longestRequest = 1 << 10
)

// run answers k8sgpt with what the last look found. Where there was none, or another
// process makes it, that is an error of the call: silence would mean that all is well.
func (s *server) run(w http.ResponseWriter, r *http.Request) {
	if kind := r.Header.Get("Content-Type"); r.ProtoMajor != 2 || kind != grpcType && !strings.HasPrefix(kind, grpcType+"+proto") {
		say(w, http.StatusUnsupportedMediaType, "this is for gRPC")
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, longestRequest)) // of no parameters none can be wrong
	w.Header().Set("Content-Type", grpcType)
	_, _, l := s.state.now()
	if l == nil {
		w.Header().Set("Grpc-Status", grpcUnavailable)
		w.Header().Set("Grpc-Message", "there is no report yet, or another process makes it")
		return
	}
	message := runResponse(l)
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", grpcOK)
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) // not compressed
	_, _ = w.Write(append(frame, message...))                               // whoever has gone away needs no answer
}

// runResponse is an encoded RunResponse. Without a result nothing is wrong.
func runResponse(l *look) []byte {
	texts := errorTexts(l)
	if len(texts) == 0 {
		return nil
	}
	var result []byte
	result = protowire.AppendString(protowire.AppendTag(result, resultKind, protowire.BytesType), "volumes")
	result = protowire.AppendString(protowire.AppendTag(result, resultName, protowire.BytesType), "volume-doctor")
	for _, text := range texts {
		detail := protowire.AppendString(protowire.AppendTag(nil, errorText, protowire.BytesType), bounded(text))
		result = protowire.AppendBytes(protowire.AppendTag(result, resultError, protowire.BytesType), detail)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, responseResult, protowire.BytesType), result)
}

// errorTexts say what could not be read, and then what stands, the worst first.
func errorTexts(l *look) []string {
	var texts []string
	for _, g := range l.report.Gaps {
		texts = append(texts, unreadText(g))
	}
	for _, s := range slices.SortedStableFunc(slices.Values(l.standing), worst) {
		texts = append(texts, errorTextOf(s))
	}
	if more := len(texts) - mostErrors; more > 0 {
		texts = append(texts[:mostErrors:mostErrors], fmt.Sprintf("%d more are not listed: run kubectl volume-doctor diagnose", more))
	}
	return texts
}

// errorTextOf leaves out ByHand: what a guard allows of it repair.Propose has put into Advice.
func errorTextOf(s finding.Standing) string {
	parts := []string{fmt.Sprintf("%s (%s): %s", s.Code, s.Severity, s.Message)}
	var hits []string
	for _, step := range s.Steps {
		if !step.ByHand {
			hits = append(hits, step.Says)
		}
	}
	for _, part := range []struct{ name, text string }{{"Cause", s.Cause}, {"What to do", s.Advice}, {"What that hits", strings.Join(hits, "; ")}} {
		if part.text != "" {
			parts = append(parts, part.name+": "+part.text)
		}
	}
	return strings.Join(parts, ". ")
}
