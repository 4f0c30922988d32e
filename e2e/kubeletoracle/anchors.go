//go:build linux && !upto_v1_36

package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (h *host) GetTrustAnchorsByName(context.Context, string, bool) ([]byte, error) {
	return nil, errNotHere
}

func (h *host) GetTrustAnchorsBySigner(context.Context, string, *metav1.LabelSelector, bool) ([]byte, error) {
	return nil, errNotHere
}
