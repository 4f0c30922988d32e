// Command client calls the custom analyzer at an address as k8sgpt does, and prints the
// result as JSON.
//
//	client HOST:PORT
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"

	"github.com/k8sgpt-ai/k8sgpt/pkg/custom"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	client, err := custom.NewClient(custom.Connection{Url: host, Port: port})
	if err != nil {
		return err
	}
	result, err := client.Run()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
