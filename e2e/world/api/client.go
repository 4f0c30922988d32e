package api

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Config is a client's way to the server. The agent names the client to the faults.
func (s *Server) Config(agent string) *rest.Config {
	return &rest.Config{
		Host: "http://world.invalid", Transport: s, UserAgent: agent, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON},
	}
}

// Client is a clientset for the server.
func (s *Server) Client(agent string) (*kubernetes.Clientset, error) {
	return kubernetes.NewForConfig(s.Config(agent))
}
