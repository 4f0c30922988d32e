package main

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
)

// inTest calls f with what inBubble needs, and exits. The package testing has no
// other door for a program that is no test.
func inTest(f func(*testing.T) error) {
	test := testing.InternalTest{Name: "oracle", F: func(t *testing.T) {
		if err := f(t); err != nil {
			fmt.Fprintln(os.Stderr, "oracle:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{test}, nil, nil)
}

// inBubble runs f where time passes only while everything waits, so that hours
// take seconds and every timer keeps its own length.
func inBubble(t *testing.T, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil && err == nil {
			err = fmt.Errorf("the bubble: %v", r)
		}
	}()
	synctest.Test(t, func(*testing.T) { err = f() })
	return err
}
