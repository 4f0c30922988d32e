//go:build linux && upto_v1_33

package main

// limitExceeded is nothing: the kubelet rejects no pod because the node is full.
func limitExceeded(error) (reason string, full error) { return "", nil }
