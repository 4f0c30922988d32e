package alerts

import (
	"encoding/json"
	"fmt"
	"strings"
)

// dashboard has as much of Grafana's model as ours needs. Grafana 11 has schema version 39,
// and later ones convert it.
type dashboard struct {
	Title         string                `json:"title"`
	UID           string                `json:"uid"`
	Description   string                `json:"description"`
	Tags          []string              `json:"tags"`
	SchemaVersion int                   `json:"schemaVersion"`
	Editable      bool                  `json:"editable"`
	Refresh       string                `json:"refresh"`
	Time          timeRange             `json:"time"`
	Templating    map[string][]variable `json:"templating"`
	Panels        []panel               `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type variable struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	Type  string `json:"type"`
	Query string `json:"query"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type panel struct {
	ID              int                 `json:"id"`
	Title           string              `json:"title"`
	Description     string              `json:"description"`
	Type            string              `json:"type"`
	Datasource      datasource          `json:"datasource"`
	GridPos         place               `json:"gridPos"`
	Targets         []target            `json:"targets"`
	FieldConfig     map[string]defaults `json:"fieldConfig"`
	Transformations []transformation    `json:"transformations,omitempty"`
}

type place struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type target struct {
	RefID        string     `json:"refId"`
	Datasource   datasource `json:"datasource"`
	Expr         string     `json:"expr"`
	LegendFormat string     `json:"legendFormat,omitempty"`
	Format       string     `json:"format,omitempty"`
	Instant      bool       `json:"instant,omitempty"`
}

type defaults struct {
	Unit string `json:"unit,omitempty"`
	Min  *int   `json:"min,omitempty"`
}

// transformation removes the columns that Prometheus adds to a table.
type transformation struct {
	ID      string         `json:"id"`
	Options map[string]any `json:"options"`
}

// prometheus is the data source that the reader of the dashboard chooses.
var prometheus = datasource{"prometheus", "${datasource}"}

// Kinds of panels.
const (
	number = "stat"
	graph  = "timeseries"
	table  = "table"
)

// chart is a panel as Dashboard describes it. Where replicas matter, maxBy chooses the
// series: a replica that stands by has none about the cluster.
type chart struct {
	kind, title, about, unit string
	width, height            int
	expr, legend             string
}

// own selects a metric that every Go process has, for only our processes.
func own(expr string) string {
	return fmt.Sprintf("%s * on (job, instance) group_left () max by (job, instance) (%s)", expr, metric("volume_doctor_build_info").Name)
}

func charts() []chart {
	since, findings := metric("volume_doctor_finding_since_timestamp_seconds"), metric("volume_doctor_findings").Name
	waiting, detaching := metric("volume_doctor_waiting_seconds"), metric("volume_doctor_detaching_seconds")
	attached, limit := metric("volume_doctor_attached_volumes"), metric("volume_doctor_attachable_volumes_limit").Name
	gaps, look := metric("volume_doctor_gaps"), metric("volume_doctor_look_duration_seconds").Name
	lastLook := metric("volume_doctor_last_look_timestamp_seconds").Name
	bySeverity := func(s string) string {
		return fmt.Sprintf("sum(%s (%s{severity=%q}))", maxBy("code", "check", "severity"), findings, s)
	}
	load := fmt.Sprintf("%s (%s)", maxBy(attached.Labels...), attached.Name)
	room := fmt.Sprintf("%s (%s)", maxBy(attached.Labels...), limit)
	var all []chart
	for _, s := range severities {
		all = append(all, chart{number, "Findings: " + string(s.of), s.advice, "", 4, 4, bySeverity(string(s.of)), ""})
	}
	return append(all,
		chart{number, "Gaps", "Kinds that cannot be followed. Checks that need them do not run, and 0 findings does not mean that all is well.", "", 4, 4, fmt.Sprintf("sum(%s (%s)) or 0 * max(%s)", maxBy(gaps.Labels...), gaps.Name, lastLook), ""},
		chart{number, "Leaders", "0: nobody looks. 1 for each installation.", "", 4, 4, fmt.Sprintf("sum(%s (%s))", maxBy(), metric("volume_doctor_leader").Name), ""},
		chart{number, "Last look", "How long ago the last look at the cluster was.", "s", 4, 4, fmt.Sprintf("time() - max(%s)", lastLook), ""},
		chart{table, "Findings that stand", "For how long, and about what.", "s", 24, 9, fmt.Sprintf("sort_desc(time() - %s (%s))", maxBy(since.Labels...), since.Name), ""},
		chart{graph, "Findings by check", "Checks that found nothing are left out.", "", 12, 8, fmt.Sprintf("%s (%s) > 0", maxBy("code", "check", "severity"), findings), "{{severity}} {{code}} {{check}}"},
		chart{graph, "Pods that wait, by stage and actor", "How many pods wait for a volume, in which stage and for whom.", "", 12, 8, fmt.Sprintf("count by (stage, actor) (%s (%s))", maxBy(waiting.Labels...), waiting.Name), "{{stage}}: {{actor}}"},
		chart{table, "Longest waits", "The 50 pods that have waited for a volume for longest.", "s", 12, 9, fmt.Sprintf("topk(50, %s (%s))", maxBy(waiting.Labels...), waiting.Name), ""},
		chart{table, "Longest detaches", "The 50 volumes whose detach was asked for first and is not done.", "s", 12, 9, fmt.Sprintf("topk(50, %s (%s))", maxBy(detaching.Labels...), detaching.Name), ""},
		chart{graph, "Room on the fullest nodes", "Attached volumes as a part of the limit, for the 20 fullest nodes and drivers. At 1 the scheduler places no more there.", "percentunit", 12, 8, fmt.Sprintf("topk(20, %s / (%s > 0))", load, room), "{{node}} {{driver}}"},
		chart{graph, "Attached volumes and limits", "The sums over all nodes of each driver that has a limit.", "", 12, 8, fmt.Sprintf("sum by (driver) (%s and (%s))\nor\nlabel_replace(sum by (driver) (%s), \"of\", \"limit\", \"\", \"\")", load, room, room), "{{driver}} {{of}}"},
		chart{graph, "Gaps by kind", "", "", 8, 7, fmt.Sprintf("%s (%s)", maxBy(gaps.Labels...), gaps.Name), "{{kind}}: {{reason}}"},
		chart{graph, "Time of a look", "The mean time that it takes to make a report.", "s", 8, 7, fmt.Sprintf("sum by (job) (rate(%s_sum[5m])) / sum by (job) (rate(%s_count[5m]))", look, look), "{{job}}"},
		chart{graph, "CPU", "What each replica uses, in cores.", "", 4, 7, own("rate(process_cpu_seconds_total[5m])"), "{{instance}}"},
		chart{graph, "Memory", "What each replica holds.", "bytes", 4, 7, own("process_resident_memory_bytes"), "{{instance}}"},
	)
}

// Dashboard is the JSON that Grafana imports.
func Dashboard() ([]byte, error) {
	d := dashboard{
		Title: "Volume doctor", UID: "volume-doctor", Description: "What kubectl volume-doctor serve finds. Generated by make generate.",
		Tags: []string{"kubernetes", "storage"}, SchemaVersion: 39, Editable: true, Refresh: "30s", Time: timeRange{"now-6h", "now"},
		Templating: map[string][]variable{"list": {{"datasource", "Data source", "datasource", "prometheus"}}},
	}
	const width = 24
	x, y, zero := 0, 0, 0
	for i, c := range charts() {
		p := panel{
			ID: i + 1, Title: c.title, Description: c.about, Type: c.kind, Datasource: prometheus, GridPos: place{c.height, c.width, x, y},
			Targets:     []target{{RefID: "A", Datasource: prometheus, Expr: c.expr, LegendFormat: c.legend, Instant: c.kind != graph}},
			FieldConfig: map[string]defaults{"defaults": {Unit: c.unit, Min: &zero}},
		}
		if c.kind == table {
			p.Targets[0].Format = table
			p.Transformations = []transformation{{"organize", map[string]any{"excludeByName": map[string]bool{"Time": true}}}}
		}
		if x += c.width; x == width {
			x, y = 0, y+c.height
		}
		d.Panels = append(d.Panels, p)
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(d)
	return []byte(b.String()), err
}
