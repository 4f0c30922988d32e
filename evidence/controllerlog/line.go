package controllerlog

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// entry is one line of the log, with the lines that belong to it.
type entry struct {
	at  time.Time
	msg string
	// process is the ID of the process in klog's header; "" in JSON, which has none.
	process string
	// rest is the text after the message of a structured line in text format, and values are
	// the values of a line in JSON.
	rest   string
	values map[string]json.RawMessage
	// structured reports whether the message is a constant of the source, so that a following
	// line without a header does not continue it.
	structured bool
	// detailed reports whether this line shows that the log has the lines of --v=1.
	detailed bool
}

// parser splits the log of a program into entries.
type parser struct {
	// program and tooLong are for errors: the program whose log it is, and what to do about a
	// log that is longer than MaxLog.
	program, tooLong string
	// journal reports whether the lines may come from journalctl.
	journal bool
	// hosts are the hosts whose lines count; empty where all lines do.
	hosts []string
	now   time.Time
	// zone is the time zone of klog's text format, whose times carry none: UTC, unless a
	// back-off, whose time has a zone, shows another one.
	zone    *time.Location
	learned bool // a line has shown the zone
	stamped bool // a line had a time of its own beside klog's
	// lines counts the lines with a header of klog's.
	lines int
	// over reports whether a line was later than now.
	over bool
	held *entry // the last line, which others may continue
}

// next takes the next line, and returns the entry that it ends, if any.
func (p *parser) next(text string) *entry {
	e, ok := p.parse(strings.TrimRight(text, "\r\n"))
	if !ok {
		if p.held != nil && !p.held.structured && strings.TrimSpace(text) != "" && len(p.held.msg) < maxLine {
			if stamp, after := p.unwrap(text); !stamp.IsZero() {
				text = after
			}
			p.held.msg += "\n" + strings.TrimRight(text, "\r\n")
		}
		return nil
	}
	p.lines++
	done := p.end()
	p.held = e
	return done
}

// end returns the last entry.
func (p *parser) end() *entry {
	e := p.held
	p.held = nil
	if e == nil || p.over {
		return nil
	}
	last := p.now
	if p.zoneUnknown() {
		last = last.Add(easternmost) // a kubelet has its machine's zone
	}
	if e.at.After(last) {
		p.over = true // later lines may rest on those that are left out here
		return nil
	}
	return e
}

// parse reads a line with klog's header; it is false for any other.
func (p *parser) parse(text string) (*entry, bool) {
	stamp, text := p.unwrap(text)
	if strings.HasPrefix(text, "{") {
		e, ok := parseJSON(text, stamp)
		p.stamped = p.stamped || ok
		return e, ok
	}
	at, process, text, ok := p.header(text)
	if !ok {
		return nil, false
	}
	if !stamp.IsZero() {
		at, p.stamped = stamp, true // this time has its year and zone
	}
	e := &entry{at: at, process: process, msg: text}
	if quoted, err := strconv.QuotedPrefix(text); err == nil && strings.HasPrefix(text, `"`) {
		e.msg, _ = strconv.Unquote(quoted)
		e.rest, e.structured = text[len(quoted):], true
	}
	return e, true
}

// unwrap removes what container runtimes, kubectl and Docker put before a line, and returns
// its time, if it has one.
func (p *parser) unwrap(text string) (time.Time, string) {
	if docker := struct{ Log, Time string }{}; strings.HasPrefix(text, `{"log":`) && json.Unmarshal([]byte(text), &docker) == nil {
		stamp, _ := time.Parse(time.RFC3339Nano, docker.Time)
		return stamp, strings.TrimRight(docker.Log, "\n")
	}
	if strings.HasPrefix(text, "[") { // kubectl logs --prefix
		if _, rest, ok := strings.Cut(text, "] "); ok {
			text = rest
		}
	}
	first, rest, ok := strings.Cut(text, " ")
	if !ok || len(first) < len("2006-01-02T15:04:05Z") || first[4] != '-' {
		return time.Time{}, text
	}
	stamp, err := time.Parse(time.RFC3339Nano, first)
	if err != nil {
		return time.Time{}, text
	}
	for _, stream := range []string{"stderr ", "stdout "} {
		if after, ok := strings.CutPrefix(rest, stream); ok {
			if len(after) > 1 && after[1] == ' ' { // F or P
				after = after[2:]
			}
			return stamp, after
		}
	}
	return stamp, rest
}

// header reads klog's header of a text line: "I1122 10:42:07.000000  1 file.go:1] ".
func (p *parser) header(text string) (at time.Time, process, rest string, ok bool) {
	const stamp = "0102 15:04:05.000000"
	if len(text) < 1+len(stamp) || strings.IndexByte("IWEF", text[0]) < 0 {
		return at, "", "", false
	}
	head, rest, ok := strings.Cut(text, "] ")
	if !ok || len(head) < 1+len(stamp) {
		return at, "", "", false
	}
	// klog prints no year. 2000 has every day, so the text is read as of 2000. The year is then
	// the current one, or the one before if that lies more than a day in the future.
	month, err := time.ParseInLocation("2006 "+stamp, "2000 "+text[1:1+len(stamp)], p.zone)
	if err != nil {
		return at, "", "", false
	}
	at = month.AddDate(p.now.In(p.zone).Year()-2000, 0, 0)
	if at.Sub(p.now) > 24*time.Hour {
		at = month.AddDate(p.now.In(p.zone).Year()-2001, 0, 0)
	}
	process, _, _ = strings.Cut(strings.TrimLeft(head[1+len(stamp):], " "), " ")
	return at, process, rest, true
}

// The zones' least distance from UTC, and how far ahead of it a clock may be.
const (
	leastZone   = 30 * time.Minute
	easternmost = 14 * time.Hour
)

// zoneUnknown reports whether the times of a journal are in a zone that no line has shown.
func (p *parser) zoneUnknown() bool { return p.journal && !p.learned && !p.stamped }

// learnZone takes the zone of klog's times from a line that shows it, and returns by how much
// the times that were read before were wrong.
func (p *parser) learnZone(e *entry) time.Duration {
	if p.stamped || e.values != nil || !strings.HasPrefix(e.msg, operationFailed) {
		return 0
	}
	f, ok := e.backedOff()
	if !ok {
		return 0
	}
	_, is := f.until.Zone()
	_, was := e.at.In(p.zone).Zone()
	if most := int(easternmost.Seconds()); is < -most || is > most {
		return 0
	}
	p.learned = true
	if is == was {
		return 0
	}
	p.zone = time.FixedZone("", is)
	by := time.Duration(was-is) * time.Second
	if p.held != nil && p.held.values == nil { // the line that ended this one was read before the zone was known
		p.held.at = p.held.at.Add(by)
	}
	return by
}

// parseJSON reads a line of klog's JSON format.
func parseJSON(text string, stamp time.Time) (*entry, bool) {
	var values map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &values) != nil {
		return nil, false
	}
	var milliseconds float64
	e := &entry{at: stamp, values: values, structured: true}
	if json.Unmarshal(values["ts"], &milliseconds) != nil || json.Unmarshal(values["msg"], &e.msg) != nil {
		return nil, false
	}
	if milliseconds > 0 && milliseconds < 1e14 { // the year 5138
		e.at = time.UnixMicro(int64(milliseconds * 1000))
	}
	var v int
	e.detailed = json.Unmarshal(values["v"], &v) == nil && v >= 1
	e.msg = strings.TrimRight(e.msg, "\n")
	return e, true
}

// value returns the value of a key, or "". For an object that is its name, behind its namespace
// if it has one.
func (e *entry) value(key string) string {
	if e.values != nil {
		var text string
		var object struct{ Namespace, Name string }
		if json.Unmarshal(e.values[key], &text) == nil {
			return text
		}
		_ = json.Unmarshal(e.values[key], &object)
		return strings.TrimPrefix(object.Namespace+"/"+object.Name, "/")
	}
	text := e.raw(key)
	if strings.HasPrefix(text, `"`) {
		quoted, _ := strconv.QuotedPrefix(text)
		text, _ = strconv.Unquote(quoted)
		return text
	}
	if after, ok := strings.CutPrefix(text, "<\n"); ok {
		return strings.TrimSpace(after)
	}
	word, _, _ := strings.Cut(text, " ")
	return word
}

// raw is the text after the key of a structured line in text format. It walks over the values
// before it, so that it does not take text within one of them for the key.
func (e *entry) raw(key string) string {
	rest := strings.TrimLeft(e.rest, " ")
	for rest != "" {
		name, value, ok := strings.Cut(rest, "=")
		if !ok || strings.ContainsAny(name, " \"[{") {
			return ""
		}
		if name == key {
			return value
		}
		length := valueLength(value)
		if length < 0 {
			return ""
		}
		rest = strings.TrimLeft(value[length:], " ")
	}
	return ""
}

// valueLength is the length of the value at the beginning of the text; -1 where it cannot be
// told.
func valueLength(text string) int {
	switch {
	case text == "":
		return 0
	case text[0] == '"':
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return -1
		}
		return len(quoted)
	case text[0] == '[' || text[0] == '{':
		d := json.NewDecoder(strings.NewReader(text))
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			return -1
		}
		return int(d.InputOffset())
	}
	if end := strings.IndexByte(text, ' '); end >= 0 {
		return end
	}
	return len(text)
}
