// Command judge holds the model that it was built with against stories of running
// controllers until one contradicts it, and prints the first difference as JSON.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/histories"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/mutation/found"
)

func main() { found.Main(judge) }

// judge is for a file of found.Stories.
func judge(file string) (result found.Result, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return result, err
	}
	var stories []found.Story
	if err := json.Unmarshal(text, &stories); err != nil {
		return result, err
	}
	for i := range stories {
		if result.Difference = compare(&stories[i], &result.Rows); result.Difference != nil {
			break
		}
	}
	return result, nil
}

// compare returns nil where the story agrees with the model. A model that panics differs.
func compare(s *found.Story, rows *int) (d *found.Difference) {
	d = &found.Difference{Release: string(s.Release), Seed: s.Request.Seed, Row: s.Name}
	defer func() {
		if p := recover(); p != nil {
			d.Model = fmt.Sprint("it panics: ", p)
		}
	}()
	result := histories.Compare(s.Release, s.Request, s.Story, histories.AskAhead(s.Ahead...))
	*rows += result.Counts["deeds compared"] + result.Counts["bounds"]
	if len(result.Differences) == 0 {
		return nil
	}
	d.Model = result.Differences[0]
	return d
}
