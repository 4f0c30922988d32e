// Command k8sgpt builds a program that calls a custom analyzer with k8sgpt's own client.
// Run it in its folder:
//
//	go run . K8SGPT SCHEMAS PROGRAM
//
// K8SGPT and SCHEMAS are checkouts of github.com/k8sgpt-ai/k8sgpt and of
// github.com/k8sgpt-ai/schemas. The client is k8sgpt's package pkg/custom as it is. Two
// things around it are made: of pkg/common, which needs all that k8sgpt needs, there are
// only the types that the client uses; and the code of its messages, which is published
// at buf.build alone, comes from the published .proto files by the same generators.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	_ "google.golang.org/genproto/googleapis/api/annotations" // the .proto files import it
	_ "google.golang.org/grpc"                                // so that go.mod has what the client needs
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/pluginpb"
)

// The modules that the client is made of.
const (
	k8sgpt   = "github.com/k8sgpt-ai/k8sgpt"
	messages = "buf.build/gen/go/k8sgpt-ai/k8sgpt/protocolbuffers/go"
	calls    = "buf.build/gen/go/k8sgpt-ai/k8sgpt/grpc/go"
)

// commonTypes are what the client uses of k8sgpt's pkg/common.
var commonTypes = []string{"Result", "Failure", "Sensitive"}

// callsCode gives the client the generated code of the calls where it looks for it.
// buf.build generates it into a package of its own; the generator as it is puts it beside
// the messages.
const callsCode = `package schemav1grpc

import schemav1 "` + messages + `/schema/v1"

type CustomAnalyzerServiceClient = schemav1.CustomAnalyzerServiceClient

var NewCustomAnalyzerServiceClient = schemav1.NewCustomAnalyzerServiceClient
`

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: go run . K8SGPT SCHEMAS PROGRAM")
		os.Exit(2)
	}
	if err := build(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintf(os.Stderr, "k8sgpt's client: %v\n", err)
		os.Exit(1)
	}
}

// build makes a module in a folder that is removed again, with a folder for each of the
// modules that it is made of.
func build(ctx context.Context, source, schemas, program string) (err error) {
	program, err = filepath.Abs(program)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "k8sgpt-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := copyClient(source, filepath.Join(dir, k8sgpt)); err != nil {
		return err
	}
	if err := generate(ctx, schemas, dir); err != nil {
		return err
	}
	if err := write(filepath.Join(dir, calls, "schema/v1/schemav1grpc/calls.go"), callsCode); err != nil {
		return err
	}
	for from, to := range map[string]string{"go.mod": "go.mod", "go.sum": "go.sum", "testdata/client.go": "main.go"} {
		if err := copyFile(from, filepath.Join(dir, to)); err != nil {
			return err
		}
	}
	edit := []string{"mod", "edit", "-module=client"}
	for _, module := range []string{k8sgpt, messages, calls} {
		if err := write(filepath.Join(dir, module, "go.mod"), "module "+module+"\n\ngo 1.26.0\n"); err != nil {
			return err
		}
		edit = append(edit, "-require="+module+"@v0.0.0", "-replace="+module+"=./"+module)
	}
	if err := run(ctx, dir, nil, nil, "go", edit...); err != nil {
		return err
	}
	return run(ctx, dir, nil, nil, "go", "build", "-o", program, ".")
}

// copyClient copies pkg/custom, and cuts the types out of pkg/common.
func copyClient(source, to string) error {
	for _, name := range []string{"pkg/custom/client.go", "pkg/custom/types.go"} {
		if err := copyFile(filepath.Join(source, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	const name = "pkg/common/types.go"
	text, err := os.ReadFile(filepath.Join(source, name))
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, 0)
	if err != nil {
		return err
	}
	types := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			types[spec.Name.Name] = string(text[files.Position(spec.Pos()).Offset:files.Position(spec.End()).Offset])
		}
		return true
	})
	cut := "package common\n"
	for _, name := range commonTypes {
		if types[name] == "" {
			return fmt.Errorf("k8sgpt's pkg/common/types.go has no type %s", name)
		}
		cut += "\ntype " + types[name] + "\n"
	}
	return write(filepath.Join(to, name), cut)
}

// generate runs the generators of Go code over the published messages.
func generate(ctx context.Context, schemas, dir string) error {
	const name = "schema/v1/custom_analyzer.proto"
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(protocompile.CompositeResolver{
		&protocompile.SourceResolver{ImportPaths: []string{filepath.Join(schemas, "protobuf")}},
		protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
			known, err := protoregistry.GlobalFiles.FindFileByPath(path)
			return protocompile.SearchResult{Desc: known}, err
		}),
	})}
	compiled, err := compiler.Compile(ctx, name)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{}
	var options []string
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) { // after those that it imports
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
		if file.Package() == "schema.v1" {
			request.FileToGenerate = append(request.FileToGenerate, file.Path())
			options = append(options, "M"+file.Path()+"="+messages+"/schema/v1;schemav1")
		}
	}
	add(compiled[0])
	request.Parameter = proto.String(strings.Join(options, ","))
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	for _, generator := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		var out bytes.Buffer
		if err := run(ctx, "", in, &out, "go", "tool", generator); err != nil {
			return err
		}
		var response pluginpb.CodeGeneratorResponse
		if err := proto.Unmarshal(out.Bytes(), &response); err != nil {
			return err
		}
		if response.Error != nil || len(response.File) == 0 {
			return fmt.Errorf("%s makes %d files: %s", generator, len(response.File), response.GetError())
		}
		for _, file := range response.File {
			if err := write(filepath.Join(dir, file.GetName()), file.GetContent()); err != nil {
				return err
			}
		}
	}
	return nil
}

func run(ctx context.Context, dir string, in []byte, out *bytes.Buffer, name string, args ...string) error {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Stdin, command.Stderr = dir, bytes.NewReader(in), os.Stderr
	if out != nil {
		command.Stdout = out
	}
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, string(text))
}

func write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o600)
}
