//go:build linux && upto_v1_35

package main

func (h *host) GetHostName() string { return string(h.node) }
