package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// runResponseType is the message as k8sgpt has it.
func runResponseType(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	text := descriptorpb.FieldDescriptorProto_TYPE_STRING
	field := func(number int32, name string, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: text.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if of != "" {
			f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(".schema.v1."+of)
		}
		return f
	}
	errors := field(3, "error", "ErrorDetail")
	errors.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	message := func(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("schema.proto"), Package: proto.String("schema.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			message("RunResponse", field(1, "result", "Result")),
			message("Result", field(1, "kind", ""), field(2, "name", ""), errors, field(4, "details", ""), field(5, "parent_object", "")),
			message("ErrorDetail", field(1, "text", "")),
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().ByName("RunResponse")
}

// call makes the call over HTTP/2, and returns the status and the message in JSON.
func call(t *testing.T, s *server) (status, message string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := s.web()
	go func() { _ = web.Serve(listener) }()
	defer func() { _ = web.Close() }()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := http.Client{Transport: &http.Transport{Protocols: &protocols}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+listener.Addr().String()+runPath, bytes.NewReader(make([]byte, 5)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", grpcType)
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	frame, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", answer.Status, err)
	}
	if len(frame) == 0 {
		return answer.Header.Get("Grpc-Status"), ""
	}
	if frame[0] != 0 || int(binary.BigEndian.Uint32(frame[1:])) != len(frame)-5 {
		t.Fatalf("%q", frame)
	}
	m := dynamicpb.NewMessage(runResponseType(t))
	if err := proto.Unmarshal(frame[5:], m); err != nil || len(m.GetUnknown()) > 0 {
		t.Fatalf("%v, unknown fields %q", err, m.GetUnknown())
	}
	return answer.Trailer.Get("Grpc-Status"), protojson.Format(m)
}

// TestK8sGPT: k8sgpt is told what stands and what could not be read, and never that all
// is well by a process that does not know.
func TestK8sGPT(t *testing.T) {
	c := &clock{noon}
	o := options(c, io.Discard)
	o.K8sGPT = true
	s := newServer(o, nobody)
	if status, message := call(t, s); status != grpcUnavailable || message != "" {
		t.Errorf("standing by: status %s, %s", status, message)
	}
	s.state.begin(noon)
	if status, _ := call(t, s); status != grpcUnavailable {
		t.Errorf("before the first look: status %s", status)
	}
	report := &finding.Report{TakenAt: metav1.NewTime(noon)}
	s.state.last = &look{report: report}
	if status, message := call(t, s); status != grpcOK || message != "{}" {
		t.Errorf("nothing found: status %s, %s", status, message)
	}
	report.Gaps = []snapshot.Gap{{Kind: snapshot.Pods, Reason: snapshot.ReasonForbidden, Detail: "may not list pods"}}
	s.state.last.standing = []finding.Standing{
		{Finding: finding.Finding{Code: "VD401", Severity: finding.Warning, Message: "A warning"}},
		{Finding: finding.Finding{Code: "VD301", Severity: finding.Error, Message: "An error", Cause: "a cause", Advice: "do this", ByHand: "and that"}},
	}
	want := []string{
		"pods could not be read (Forbidden), so that something may be missing here: may not list pods",
		"VD301 (error): An error. Cause: a cause. What to do: do this", "VD401 (warning): A warning",
	}
	if diff := cmp.Diff(want, errorTexts(s.state.last)); diff != "" {
		t.Error(diff)
	}
	status, message := call(t, s)
	for _, text := range append(want, `"volumes"`, `"volume-doctor"`) {
		if !strings.Contains(message, text) || status != grpcOK {
			t.Errorf("status %s, no %s in %s", status, text, message)
		}
	}
}

// TestK8sGPTIsBounded: a cluster in which much is broken is told of in an answer that gRPC
// takes, and that says what it leaves out.
func TestK8sGPTIsBounded(t *testing.T) {
	l := &look{report: &finding.Report{}}
	for i := range 5000 {
		l.standing = append(l.standing, finding.Standing{Finding: finding.Finding{Code: "VD301", Severity: finding.Error, Message: strings.Repeat("long ", 1000), Fingerprint: fmt.Sprint(i)}})
	}
	texts := errorTexts(l)
	if len(texts) != mostErrors+1 || texts[mostErrors] != "4950 more are not listed: run kubectl volume-doctor diagnose" {
		t.Errorf("%d texts, the last one %q", len(texts), texts[len(texts)-1])
	}
	if n := len(runResponse(l)); n > 1<<20 {
		t.Errorf("%d bytes", n)
	}
}

// TestNoK8sGPT: without the flag, and without gRPC, there is no such answer.
func TestNoK8sGPT(t *testing.T) {
	post := func(s *server) int {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, runPath, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", grpcType)
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, r)
		return w.Code
	}
	o := options(&clock{noon}, io.Discard)
	if code := post(newServer(o, nobody)); code != http.StatusNotFound {
		t.Errorf("without the flag: %d", code)
	}
	o.K8sGPT = true
	if code := post(newServer(o, nobody)); code != http.StatusUnsupportedMediaType {
		t.Errorf("over HTTP/1: %d", code)
	}
}
