package driverwords

import (
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	got := parse("f.txt", `# What two drivers say.
drivers a.example.com b.example.com
source o/r a.go@v1

device-busy target is {...}: busy
  actor node admin
  helps Stop it.
  source o/r b.go@v1
  wrapper

timed-out no answer

drivers any
throttled too many requests
`)
	want := []family{
		{file: "f.txt", drivers: []string{"a.example.com", "b.example.com"}, source: "o/r a.go@v1", entries: []Entry{
			{Meaning: DeviceBusy, Words: "target is {...}: busy", Actor: NodeAdmin, Helps: "Stop it.", Source: "o/r b.go@v1", Wrapper: true},
			{Meaning: TimedOut, Words: "no answer"},
		}},
		{file: "f.txt", drivers: []string{}, entries: []Entry{{Meaning: Throttled, Words: "too many requests"}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"device-busy words without drivers\n",
		"source without drivers\n",
		"drivers any\nno-meaning words\n",
		"drivers any\ndevice-busy\n",
		"drivers any\ndevice-busy {} is busy\n",
		"drivers any\ndevice-busy busy is {...}\n",
		"drivers any\n  helps nobody\n",
		"drivers any\ndevice-busy words\n  help misspelt\n",
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("taken: %q", text)
				}
			}()
			parse("f.txt", text)
		}()
	}
}
