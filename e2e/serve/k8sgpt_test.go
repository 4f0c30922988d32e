package serve_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// analyzerProto is k8sgpt's interface for custom analyzers
// (github.com/k8sgpt-ai/schemas, protobuf/schema/v1), as far as an answer has it.
const analyzerProto = `
name: "analyzer.proto" package: "schema.v1" syntax: "proto3"
message_type { name: "RunRequest" }
message_type { name: "RunResponse" field { name: "result" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".schema.v1.Result" } }
message_type {
  name: "Result"
  field { name: "kind" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "name" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "error" number: 3 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".schema.v1.ErrorDetail" }
  field { name: "details" number: 4 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "parent_object" number: 5 label: LABEL_OPTIONAL type: TYPE_STRING }
}
message_type { name: "ErrorDetail" field { name: "text" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING } }
`

// askAsK8sGPT makes the call of a custom analyzer as k8sgpt does, with gRPC's own client,
// without TLS and without credentials. It returns the texts of the errors.
func askAsK8sGPT(t *testing.T, p *process) ([]string, error) {
	t.Helper()
	var text descriptorpb.FileDescriptorProto
	must(t, prototext.Unmarshal([]byte(analyzerProto), &text))
	file, err := protodesc.NewFile(&text, nil)
	must(t, err)
	connection, err := grpc.NewClient(strings.TrimPrefix(p.address, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer func() { _ = connection.Close() }()
	request := dynamicpb.NewMessage(file.Messages().ByName("RunRequest"))
	response := dynamicpb.NewMessage(file.Messages().ByName("RunResponse"))
	if err := connection.Invoke(t.Context(), "/schema.v1.CustomAnalyzerService/Run", request, response); err != nil {
		return nil, err
	}
	get := func(m protoreflect.Message, name string) protoreflect.Value {
		return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(name)))
	}
	result := get(response, "result").Message()
	var texts []string
	for i := range get(result, "error").List().Len() {
		texts = append(texts, get(get(result, "error").List().Get(i).Message(), "text").String())
	}
	if name := get(result, "name").String(); (name == "volume-doctor") != (len(texts) > 0) {
		t.Errorf("%d errors of %q", len(texts), name)
	}
	return texts, nil
}

// tellsK8sGPT: the leader tells what it has found, and one that stands by does not know.
func tellsK8sGPT(t *testing.T, leader, standby *process, code string) {
	t.Helper()
	texts, err := askAsK8sGPT(t, leader)
	if err != nil || len(texts) != 1 || !strings.HasPrefix(texts[0], code+" (") {
		t.Errorf("k8sgpt is told %q, %v", texts, err)
	}
	if texts, err := askAsK8sGPT(t, standby); status.Code(err) != codes.Unavailable {
		t.Errorf("one that stands by tells k8sgpt %q, %v", texts, err)
	}
}
