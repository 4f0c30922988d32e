package output

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// project is the address under which the pages of the checks are published.
const project = "https://github.com/volume-doctor/kubectl-volume-doctor"

// sarifLog and the types below are the part of SARIF 2.1.0 that GitHub's code scanning shows, as
// its documentation ("SARIF support for code scanning") lists it.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	// AutomationDetails keep the alerts of different clusters apart.
	AutomationDetails map[string]string `json:"automationDetails,omitempty"`
	Invocations       []sarifInvocation `json:"invocations"`
	Results           []sarifResult     `json:"results"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID               string            `json:"id"`
	Name             string            `json:"name,omitempty"`
	ShortDescription *sarifText        `json:"shortDescription,omitempty"`
	FullDescription  *sarifText        `json:"fullDescription,omitempty"`
	Help             *sarifText        `json:"help,omitempty"`
	HelpURI          string            `json:"helpUri,omitempty"`
	Default          map[string]string `json:"defaultConfiguration,omitempty"`
}

type sarifText struct {
	Text     string `json:"text"`
	Markdown string `json:"markdown,omitempty"`
}

type sarifInvocation struct {
	ExecutionSuccessful bool                `json:"executionSuccessful"`
	EndTimeUTC          string              `json:"endTimeUtc"`
	Notifications       []sarifNotification `json:"toolExecutionNotifications,omitempty"`
}

type sarifNotification struct {
	Level   string    `json:"level"`
	Message sarifText `json:"message"`
}

type sarifResult struct {
	RuleID              string            `json:"ruleId"`
	RuleIndex           int               `json:"ruleIndex"`
	Level               string            `json:"level"`
	Message             sarifText         `json:"message"`
	Locations           []sarifLocation   `json:"locations"`
	PartialFingerprints map[string]string `json:"partialFingerprints"`
}

type sarifLocation struct {
	Physical sarifPhysical  `json:"physicalLocation"`
	Logical  []sarifLogical `json:"logicalLocations"`
}

type sarifPhysical struct {
	Artifact map[string]string `json:"artifactLocation"`
	Region   map[string]int    `json:"region"`
}

type sarifLogical struct {
	Name               string `json:"name"`
	FullyQualifiedName string `json:"fullyQualifiedName"`
	Kind               string `json:"kind"`
}

func printSARIF(b *strings.Builder, r *finding.Report, _ Options) error {
	run := sarifRun{Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "volume-doctor", InformationURI: project, Rules: []sarifRule{}}
	if r.Source.Context != "" {
		run.AutomationDetails = map[string]string{"id": "volume-doctor/" + url.PathEscape(visible(r.Source.Context)) + "/"}
	}
	run.Invocations = []sarifInvocation{{
		ExecutionSuccessful: r.Complete,
		EndTimeUTC:          facts.Stamp(r.TakenAt),
		Notifications:       sarifNotifications(r),
	}}
	rules := map[finding.Code]int{}
	for _, f := range r.Findings {
		if _, known := rules[f.Code]; !known {
			rules[f.Code] = len(run.Tool.Driver.Rules)
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, ruleOf(f))
		}
		run.Results = append(run.Results, sarifResult{
			RuleID: visible(string(f.Code)), RuleIndex: rules[f.Code], Level: sarifLevel(f.Severity),
			Message:   sarifText{Text: sarifMessage(r, f)},
			Locations: []sarifLocation{sarifLocationOf(f.Subject)},
			PartialFingerprints: map[string]string{
				// GitHub compares only this fingerprint. It expects a hash and a count, as CodeQL
				// writes them.
				"primaryLocationLineHash": visible(f.Fingerprint) + ":1",
				"volumeDoctor/v1":         visible(f.Fingerprint),
			},
		})
	}
	return printJSON(b, sarifLog{
		Schema:  "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		Version: "2.1.0", Runs: []sarifRun{run},
	}, Options{})
}

// ruleOf returns the rule for the finding's check. If this build does not know the check, as can
// happen with a saved report, the rule holds only what the finding itself says.
func ruleOf(f finding.Finding) sarifRule {
	c, known := checkOf(f.Code)
	if !known {
		return sarifRule{ID: visible(string(f.Code)), Name: visible(f.Check)}
	}
	return sarifRule{
		ID: string(c.Code), Name: c.Name,
		ShortDescription: &sarifText{Text: c.Title},
		FullDescription:  &sarifText{Text: strings.Join(strings.Fields(c.About()), " ")},
		Help:             &sarifText{Text: c.Doc(), Markdown: c.Doc()},
		HelpURI:          pageOf(c.Code),
		Default:          map[string]string{"level": sarifLevel(c.Severity)},
	}
}

func checkOf(code finding.Code) (check.Check, bool) {
	checks := diagnose.Checks()
	i := slices.IndexFunc(checks, func(c check.Check) bool { return c.Code == code })
	if i < 0 {
		return check.Check{}, false
	}
	return checks[i], true
}

// pageOf returns the address of the check's page.
func pageOf(code finding.Code) string {
	return project + "/blob/main/diagnose/docs/" + url.PathEscape(visible(string(code))) + ".md"
}

func sarifLevel(s finding.Severity) string {
	switch s {
	case finding.Error, finding.Warning:
		return string(s)
	default:
		return "note"
	}
}

// sarifMessage has one line for each fact. GitHub shows plain text with its line breaks, but only
// the first sentence if space is short. It would turn "](" into a link, so the two are separated.
func sarifMessage(r *finding.Report, f finding.Finding) string {
	lines := append([]string{attributed(r, f.Text())}, plainLines(r, f)...)
	return strings.Join(texts(lines, func(line string) string { return strings.ReplaceAll(visible(line), "](", "] (") }), "\n")
}

// sarifLocationOf gives the object a file path, as if the cluster were a tree of manifests. GitHub
// shows no result without a path, and recognizes an alert by it.
func sarifLocationOf(o finding.Object) sarifLocation {
	path := []string{"cluster"}
	for _, part := range []string{o.Namespace, strings.ToLower(o.Kind), o.Name + ".yaml"} {
		if part != "" {
			path = append(path, pathSegment(part))
		}
	}
	return sarifLocation{
		Physical: sarifPhysical{map[string]string{"uri": strings.Join(path, "/")}, map[string]int{"startLine": 1}},
		Logical:  []sarifLogical{{Name: visible(o.Name), FullyQualifiedName: visible(o.String()), Kind: "resource"}},
	}
}

// pathSegment escapes the characters that would end a path segment, and the names "." and "..".
func pathSegment(s string) string {
	if s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(visible(s))
}

// sarifNotifications lists what was not examined.
func sarifNotifications(r *finding.Report) []sarifNotification {
	var list []sarifNotification
	if r.SavedIn != "" {
		list = append(list, sarifNotification{"note", sarifText{Text: visible(attributed(r, foundThere(r)))}})
	}
	for _, g := range r.Gaps {
		list = append(list, sarifNotification{"error", sarifText{Text: visible(gapText(g))}})
	}
	for _, c := range r.SkippedChecks {
		list = append(list, sarifNotification{"warning", sarifText{Text: visible(fmt.Sprintf("%s %s was not run: %s could not be read", c.Code, c.Check, c.Because))}})
	}
	return list
}

// gapText is one sentence about what was not read.
func gapText(g snapshot.Gap) string {
	what := gapKind(g)
	if g.Kind == snapshot.StorageList {
		return "the storage system's list " + g.Detail
	}
	if g.Kind == finding.Everything {
		what = "cluster " + g.Context
	}
	return fmt.Sprintf("%s could not be read (%s)%s", what, g.Reason, detail(g.Detail))
}

// mostNamespaces is the largest number of namespaces that one line names.
const mostNamespaces = 3

// gapKind names the kind that was not read, and outside which namespaces.
func gapKind(g snapshot.Gap) string {
	kind := string(g.Kind)
	switch read := g.Namespaces(); {
	case len(read) == 1:
		kind += " outside namespace " + read[0]
	case len(read) > mostNamespaces:
		kind += fmt.Sprintf(" outside the %d namespaces that were read", len(read))
	case len(read) > 0:
		kind += " outside namespaces " + strings.Join(read, ", ")
	}
	if g.Context != "" {
		kind += " in " + g.Context
	}
	return kind
}
