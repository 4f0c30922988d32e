// Command alerts evaluates alert rules over recorded scrapes, with Prometheus' own rule
// engine, and writes which alerts were pending and firing, and when.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	file := flag.String("rules", "", "the rules file")
	flag.Parse()
	if err := run(context.Background(), *file, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run reads one Scrape after the other and writes a list of Alerts.
func run(ctx context.Context, file string, in io.Reader, out io.Writer) error {
	var scrapes []Scrape
	decoder := json.NewDecoder(in)
	for {
		var s Scrape
		err := decoder.Decode(&s)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the recording: %w", err)
		}
		scrapes = append(scrapes, s)
	}
	alerts, err := evaluate(ctx, file, scrapes)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(alerts)
}
