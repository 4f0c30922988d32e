package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

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

// runResponseType is the message as k8sgpt has it, but for texts to mask, which are never sent.
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

// listening serves until the test ends, and returns the address.
func listening(t *testing.T, s *server) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := s.web()
	go func() { _ = web.Serve(listener) }()
	t.Cleanup(func() { _ = web.Close() })
	return listener.Addr().String()
}

// call makes the call over HTTP/2, and returns the status and the message in JSON.
func call(t *testing.T, s *server) (status, message string) {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := http.Client{Transport: &http.Transport{Protocols: &protocols}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+listening(t, s)+runPath, bytes.NewReader(make([]byte, 5)))
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

// told is what k8sgpt is told by a process: the texts, or by another status that it does
// not know.
type told struct {
	by, status string
	s          *server
	texts      []string
}

func allTold() []told {
	process := func(change func(*state)) *server {
		o := options(&clock{noon}, io.Discard)
		o.K8sGPT = true
		s := newServer(o, nobody)
		change(s.state)
		return s
	}
	looked := func(gaps []snapshot.Gap, standing ...finding.Standing) *server {
		return process(func(s *state) {
			s.begin(noon)
			s.last = &look{report: &finding.Report{TakenAt: metav1.NewTime(noon), Gaps: gaps}, standing: standing}
		})
	}
	return []told{
		{by: "one that stands by", status: grpcUnavailable, s: process(func(*state) {})},
		{by: "one before its first look", status: grpcUnavailable, s: process(func(s *state) { s.begin(noon) })},
		{by: "one that has found nothing", status: grpcOK, s: looked(nil)},
		{
			by: "one that has found something", status: grpcOK,
			s: looked([]snapshot.Gap{{Kind: snapshot.Pods, Reason: snapshot.ReasonForbidden, Detail: "may not list pods"}},
				finding.Standing{Finding: finding.Finding{Code: "VD401", Severity: finding.Warning, Message: "A warning"}},
				finding.Standing{Finding: finding.Finding{Code: "VD301", Severity: finding.Error, Message: "An error", Cause: "a cause", Advice: "do this", ByHand: "and that"}}),
			texts: []string{
				"pods could not be read (Forbidden), so that something may be missing here: may not list pods",
				"VD301 (error): An error. Cause: a cause. What to do: do this", "VD401 (warning): A warning",
			},
		},
	}
}

// TestK8sGPT: k8sgpt is told what stands and what could not be read, and never that all
// is well by a process that does not know.
func TestK8sGPT(t *testing.T) {
	for _, want := range allTold() {
		status, message := call(t, want.s)
		if status != want.status {
			t.Errorf("%s: status %s", want.by, status)
		}
		if want.texts == nil {
			if empty := map[string]string{grpcOK: "{}"}[want.status]; message != empty {
				t.Errorf("%s: %s", want.by, message)
			}
			continue
		}
		if diff := cmp.Diff(want.texts, errorTexts(want.s.state.last)); diff != "" {
			t.Error(diff)
		}
		for _, text := range append(want.texts, `"volumes"`, `"volume-doctor"`) {
			if !strings.Contains(message, text) {
				t.Errorf("no %s in %s", text, message)
			}
		}
	}
}

// k8sgptClient is the program that `make k8sgpt` builds of k8sgpt's own client; "" elsewhere.
var k8sgptClient = os.Getenv("K8SGPT_CLIENT")

// TestK8sGPTItself: k8sgpt's own client takes for a result what was found, for an empty
// one that nothing was, and for an error that a process does not know.
func TestK8sGPTItself(t *testing.T) {
	if k8sgptClient == "" {
		t.Skip("NOT RUN: k8sgpt's own client is not here; make k8sgpt builds it")
	}
	type failure struct {
		Text, KubernetesDoc string
		Sensitive           []any
	}
	type result struct {
		Kind, Name, Details, ParentObject string
		Error                             []failure
	}
	for _, told := range allTold() {
		t.Run(told.by, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			command := exec.CommandContext(ctx, k8sgptClient, listening(t, told.s))
			var failed strings.Builder
			command.Stderr = &failed
			out, err := command.Output()
			if told.status == grpcUnavailable {
				if err == nil || len(out) > 0 || !strings.Contains(failed.String(), "code = Unavailable desc = there is no report yet") {
					t.Errorf("%v, %s%s", err, out, &failed)
				}
				return
			}
			var want, got result
			for _, text := range told.texts {
				want.Kind, want.Name, want.Error = "volumes", "volume-doctor", append(want.Error, failure{Text: text})
			}
			if err != nil {
				t.Fatalf("%v, %s", err, &failed)
			}
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v, %s", err, out)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
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
