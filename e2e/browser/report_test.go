// Package browser opens the HTML report in a real browser.
package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/cmd"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// browsers are the names under which Debian and others install Chromium.
var browsers = []string{"chromium-headless-shell", "headless_shell", "chromium", "chromium-browser", "google-chrome"}

// cases have a picture and a repair; a cause with forty findings; one with gaps;
// two nodes; and no finding at all.
var cases = []string{"vd301-backoff-drop", "vd102-forty-pods", "vd301-no-events", "vd201-two-writers", "vd604-ten-pods", "healthy-background"}

func start(t *testing.T) context.Context {
	t.Helper()
	for _, name := range browsers {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()))
		if os.Getuid() == 0 {
			options = append(options, chromedp.NoSandbox) // Chromium refuses root with it
		}
		ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
		t.Cleanup(cancel)
		ctx, cancel = chromedp.NewContext(ctx)
		t.Cleanup(cancel)
		if err := chromedp.Do(ctx); err != nil { // starts it, and its life is that of this context
			t.Fatalf("%s does not start: %v", path, err)
		}
		ctx, cancel = context.WithTimeout(ctx, 3*time.Minute)
		t.Cleanup(cancel)
		return ctx
	}
	t.Skipf("NOT RUN: none of %s is on PATH", strings.Join(browsers, ", "))
	return nil
}

// page makes the report on a case, or what another command says of it, as somebody on
// the command line would, and returns its address.
func page(t *testing.T, name string, args ...string) string {
	t.Helper()
	c, err := testcases.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return pageOn(t, c.Cluster, args...)
}

// pageOn is page on a cluster.
func pageOn(t *testing.T, objects []byte, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	cluster, report := filepath.Join(dir, "cluster.yaml"), filepath.Join(dir, "report.html")
	if err := os.WriteFile(cluster, objects, 0o600); err != nil {
		t.Fatal(err)
	}
	var errOut strings.Builder
	if len(args) == 0 {
		args = []string{"diagnose"}
	}
	if code := cmd.Main(slices.Concat(args, []string{"-f", cluster, "-o", "html=" + report}), nil, &errOut, &errOut); code > 2 {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	if _, err := os.Stat(report); err != nil {
		t.Fatalf("%v: %s", err, errOut.String())
	}
	return (&url.URL{Scheme: "file", Path: report}).String()
}

// watch gathers what a page asks for and complains of.
type watch struct {
	mu         sync.Mutex
	complaints []string
	requests   []string
}

func (w *watch) hear(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		w.complaints = append(w.complaints, event.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		w.complaints = append(w.complaints, fmt.Sprintf("console.%s", event.Type))
	case *log.EventEntryAdded:
		w.complaints = append(w.complaints, event.Entry.Text)
	case *network.EventRequestWillBeSent:
		w.requests = append(w.requests, event.Request.URL)
	}
}

// TestReportInABrowser: at each width and in each scheme the page fits, can be
// read, complains of nothing and asks for nothing.
func TestReportInABrowser(t *testing.T) {
	ctx := start(t)
	for _, name := range cases {
		inABrowser(t, ctx, name, page(t, name))
	}
}

// TestLongNamesInABrowser is the same with names of sixty letters, which have no place where
// a line may be broken.
func TestLongNamesInABrowser(t *testing.T) {
	ctx := start(t)
	for _, name := range []string{"vd301-backoff-drop", "vd102-forty-pods", "vd201-two-writers"} {
		c, err := testcases.Load(name)
		must(t, err)
		objects := longNames(c.Cluster)
		inABrowser(t, ctx, "long-"+name, pageOn(t, objects))
		inABrowser(t, ctx, "long-preflight-"+name, pageOn(t, objects, "preflight", "node/"+longName("n1")))
	}
	c, err := testcases.Load("vd301-backoff-drop")
	must(t, err)
	inABrowser(t, ctx, "long-trace", pageOn(t, longNames(c.Cluster), "trace", "pod/"+longName("web-0"), "-n", longName("default")))
}

var handles = regexp.MustCompile(`\bvol-[a-z0-9-]+`)

var shortName = regexp.MustCompile(`\b(?:n[0-9]|web-[0-9]|db-[0-9]+|pv-[a-z0-9-]+|data(?:-db-[0-9]+)?|default)\b`)

// longName is the name with sixty letters.
func longName(name string) string { return name + strings.Repeat("x", 60-len(name)) }

// longNames gives the nodes, pods, claims and volumes such names, and the VolumeAttachments
// those that are made of them.
func longNames(cluster []byte) []byte {
	for _, handle := range handles.FindAllString(string(cluster), -1) {
		attachment := func(node string) []byte {
			return []byte(reconcile.VolumeAttachmentName(handle, "ebs.csi.aws.com", types.NodeName(node)))
		}
		for _, node := range []string{"n1", "n2", "n3"} {
			cluster = bytes.ReplaceAll(cluster, attachment(node), attachment(longName(node)))
		}
	}
	return shortName.ReplaceAllFunc(cluster, func(name []byte) []byte { return []byte(longName(string(name))) })
}

func inABrowser(t *testing.T, ctx context.Context, name, address string) {
	for _, width := range []int64{320, 360, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(fmt.Sprintf("%s/%d/%s", name, width, scheme), func(t *testing.T) {
				tab, cancel := chromedp.NewContext(ctx)
				defer cancel()
				var w watch
				must(t, chromedp.Listen(tab, w.hear))
				call(t, tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
					Width: width, Height: 800, DeviceScaleFactor: 1, Mobile: width < 600,
				})
				call(t, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
				})
				must(t, chromedp.Do(tab, chromedp.Navigate(address)))
				shoot(t, tab, fmt.Sprintf("%s-%d-%s", name, width, scheme))
				evaluate[int](t, tab, `[...document.querySelectorAll("details")].filter(d => d.open = true).length`)
				overflow := evaluate[[]string](t, tab, overflowing)
				contrast := evaluate[[]string](t, tab, lowContrast)
				outside := evaluate[[]string](t, tab, outsidePicture)
				left := evaluate[[]string](t, tab, outsideBox)
				background := evaluate[string](t, tab, `getComputedStyle(document.body).backgroundColor`)
				if len(overflow) > 0 {
					t.Errorf("wider than the screen: %v", overflow)
				}
				if len(contrast) > 0 {
					t.Errorf("too little contrast: %v", contrast)
				}
				if len(left) > 0 {
					t.Errorf("text leaves its box: %v", left)
				}
				if len(outside) > 0 {
					t.Errorf("text leaves its picture: %v", outside)
				}
				if dark := background == "rgb(20, 23, 26)"; dark != (scheme == "dark") {
					t.Errorf("the %s page has the background %s", scheme, background)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(w.complaints) > 0 {
					t.Errorf("the browser complains: %v", w.complaints)
				}
				if len(w.requests) == 0 || w.requests[0] != address {
					t.Errorf("the page itself was not seen to be asked for: %v", w.requests)
				}
				for _, request := range w.requests {
					if request != address && request != "data:," {
						t.Errorf("asks for %s", request)
					}
				}
			})
		}
	}
}

// TestReportByKeyboard: everything can be reached and used without a mouse.
func TestReportByKeyboard(t *testing.T) {
	ctx := start(t)
	must(t, chromedp.Do(ctx, chromedp.Navigate(page(t, "vd301-backoff-drop")), chromedp.KeyEvent(kb.Tab)))
	first := evaluate[string](t, ctx, `document.activeElement.textContent`)
	outline := evaluate[string](t, ctx, `getComputedStyle(document.activeElement).outlineStyle`)
	buttons := evaluate[int](t, ctx, `document.querySelectorAll(".command button").length`)
	commands := evaluate[int](t, ctx, `document.querySelectorAll(".command").length`)
	must(t, chromedp.Do(ctx, chromedp.Focus(".command button"), chromedp.KeyEvent(kb.Enter)))
	summary, err := chromedp.Run(ctx, chromedp.Poll[string](`document.getElementById("told").textContent`))
	must(t, err)
	if first != "Skip to the findings" || outline == "none" {
		t.Errorf("the first stop is %q, with outline %q", first, outline)
	}
	if commands == 0 || buttons != commands {
		t.Errorf("%d buttons for %d commands", buttons, commands)
	}
	if summary != "Copied" {
		t.Errorf("after the button: %q", summary)
	}
}

// TestReportWithoutScripts: the commands, the folds and the pictures are there.
func TestReportWithoutScripts(t *testing.T) {
	ctx := start(t)
	call(t, ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	must(t, chromedp.Do(ctx, chromedp.Navigate(page(t, "vd301-backoff-drop"))))
	html, err := chromedp.Run(ctx, chromedp.OuterHTML("html"))
	must(t, err)
	if !strings.Contains(html, "kubectl patch node") || !strings.Contains(html, "<svg") || strings.Contains(html, "<button") {
		t.Errorf("without scripts the page is\n%s", html)
	}
}

// thousand is the report on a lost node with 1,000 pods, made of the one with 40.
func thousand(t *testing.T) string {
	t.Helper()
	c, err := testcases.Load("vd102-forty-pods")
	must(t, err)
	dir := t.TempDir()
	cluster, small, large, report := filepath.Join(dir, "cluster.yaml"), filepath.Join(dir, "40.json"), filepath.Join(dir, "1000.json"), filepath.Join(dir, "report.html")
	must(t, os.WriteFile(cluster, c.Cluster, 0o600))
	var errOut strings.Builder
	cmd.Main([]string{"diagnose", "-f", cluster, "-o", "json=" + small}, nil, &errOut, &errOut)
	text, err := os.ReadFile(small)
	must(t, err)
	var document map[string]any
	must(t, json.Unmarshal(text, &document))
	findings := document["findings"].([]any)
	for i := len(findings); i < 1000; i++ {
		finding := maps.Clone(findings[i%40].(map[string]any))
		finding["fingerprint"] = fmt.Sprintf("%v-%d", finding["fingerprint"], i)
		finding["causedBy"] = findings[0].(map[string]any)["fingerprint"]
		finding["message"] = fmt.Sprintf("Pod number-%d waits", i)
		findings = append(findings, finding)
	}
	document["findings"], document["summary"] = findings, map[string]any{"error": 1000, "warning": 0, "info": 0}
	text, err = json.Marshal(document)
	must(t, err)
	must(t, os.WriteFile(large, text, 0o600))
	if code := cmd.Main([]string{"diagnose", "--report", large, "-o", "html=" + report}, nil, &errOut, &errOut); code != 1 {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	return (&url.URL{Scheme: "file", Path: report}).String()
}

// TestSearch: the search finds one of a thousand findings in a moment, and shows where it
// is; an empty one shows all.
func TestSearch(t *testing.T) {
	ctx := start(t)
	var w watch
	must(t, chromedp.Listen(ctx, w.hear))
	must(t, chromedp.Do(ctx, chromedp.Navigate(thousand(t))))
	const search = `(words => {
		const field = document.getElementById("words");
		const began = performance.now();
		field.value = words;
		field.dispatchEvent(new Event("input"));
		return {
			Took: performance.now() - began, Said: document.getElementById("shown").textContent,
			Seen: [...document.querySelectorAll("article")].filter(a => a.checkVisibility()).map(a => a.querySelector(":scope > p").textContent),
		};
	})`
	type result struct {
		Took float64
		Said string
		Seen []string
	}
	one := evaluate[result](t, ctx, search+`("NUMBER-777")`)
	if one.Said != "1 of 1000 findings" || len(one.Seen) != 2 || !strings.HasSuffix(one.Seen[1], "says: Pod number-777 waits") {
		t.Errorf("%q: %q", one.Said, one.Seen)
	}
	if one.Took > 500 {
		t.Errorf("a search took %.0f ms", one.Took)
	}
	t.Logf("a search took %.0f ms", one.Took)
	if none := evaluate[result](t, ctx, search+`("no such words")`); none.Said != "0 of 1000 findings" || len(none.Seen) != 0 {
		t.Errorf("%q: %q", none.Said, none.Seen)
	}
	if all := evaluate[result](t, ctx, search+`("")`); all.Said != "" || len(all.Seen) == 0 {
		t.Errorf("%q: %q", all.Said, all.Seen)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.complaints) > 0 || len(w.requests) > 1 {
		t.Errorf("complains %v, asks for %v", w.complaints, w.requests)
	}
}

// TestPageOfACode: the link at a finding opens the page that is folded at the end.
func TestPageOfACode(t *testing.T) {
	ctx := start(t)
	must(t, chromedp.Do(ctx, chromedp.Navigate(page(t, "vd301-backoff-drop"))))
	open := evaluate[bool](t, ctx, `(() => { document.querySelector("h2 a").click(); return true; })()`)
	shown, err := chromedp.Run(ctx, chromedp.Poll[bool](`document.getElementById("VD301").open && document.querySelector("#VD301 pre").checkVisibility()`))
	must(t, err)
	if !open || !shown {
		t.Error("the page stays folded")
	}
}

// TestPrint: on paper everything is unfolded, with scripts and without, and what a search
// hides is there.
func TestPrint(t *testing.T) {
	pages := map[bool]int{}
	for _, scripts := range []bool{true, false} {
		ctx := start(t)
		call(t, ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !scripts})
		must(t, chromedp.Do(ctx, chromedp.Navigate(page(t, "vd102-forty-pods"))))
		if scripts {
			evaluate[bool](t, ctx, `(() => { const w = document.getElementById("words"); if (w) { w.value = "no such words"; w.dispatchEvent(new Event("input")); } return true; })()`)
		}
		result, err := chromedp.Call(ctx, cdppage.PrintToPDF, cdppage.PrintToPDFParams{})
		must(t, err)
		pages[scripts] = strings.Count(string(result.Data), "/Type /Page\n")
	}
	t.Logf("%d pages", pages[true])
	if pages[true] < 20 || pages[false] != pages[true] {
		t.Errorf("40 findings print as %d pages, and without scripts as %d", pages[true], pages[false])
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func call[P, R any](t *testing.T, ctx context.Context, command cdp.Command[P, R], params P) {
	t.Helper()
	_, err := chromedp.Call(ctx, command, params)
	must(t, err)
}

func evaluate[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	must(t, err)
	return value
}

// overflowing are the elements that stick out at the right.
const overflowing = `(() => {
  const limit = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= limit) return [];
  return [...document.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > limit + 0.5)
    .slice(0, 5).map(e => e.tagName + "." + e.getAttribute("class") + " " + e.getBoundingClientRect().right);
})()`

// outsidePicture are the texts that leave their picture at the right, or the box
// that they begin in.
const outsidePicture = `[...document.querySelectorAll("svg")].flatMap(svg => {
  const boxes = [...svg.querySelectorAll("rect")].map(r => r.getBBox());
  return [...svg.querySelectorAll("text")].filter(text => {
    const b = text.getBBox();
    const box = boxes.find(r => b.x >= r.x && b.x < r.x + r.width && b.y + b.height / 2 >= r.y && b.y + b.height / 2 <= r.y + r.height);
    return b.x + b.width > (box ? box.x + box.width : svg.viewBox.baseVal.width);
  }).map(text => text.textContent);
})`

// outsideBox are the texts that leave the block that they stand in, which does not scroll.
const outsideBox = `(() => {
  const left = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    if (!n.textContent.trim() || n.parentElement.closest("script, style, svg, .skip")) continue;
    let box = n.parentElement, scrolls = false;
    while (getComputedStyle(box).display.startsWith("inline")) box = box.parentElement;
    for (let e = box; e; e = e.parentElement) scrolls ||= ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
    const range = document.createRange();
    range.selectNodeContents(n);
    const b = box.getBoundingClientRect();
    if (!scrolls && [...range.getClientRects()].some(r => r.width > 0 && (r.right > b.right + 1 || r.left < b.left - 1))) left.push(n.textContent.trim().slice(0, 60));
  }
  return left.slice(0, 5);
})()`

// lowContrast are the texts below what WCAG 2 asks for at level AA: 4.5 to 1, or 3
// to 1 for large ones. Behind a text in a picture is its box, or the card.
const lowContrast = `(() => {
  const parse = c => c.match(/[\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const low = [];
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const e = n.parentElement;
    if (!n.textContent.trim() || ["SCRIPT", "STYLE", "title", "desc"].includes(e.tagName)) continue;
    seen++;
    const style = getComputedStyle(e);
    let back = behind(e), front = parse(style.color);
    if (e.tagName === "text") {
      front = parse(style.fill);
      const b = e.getBBox();
      for (const rect of e.ownerSVGElement.querySelectorAll("rect")) {
        const r = rect.getBBox();
        if (b.x >= r.x && b.x < r.x + r.width && b.y + b.height / 2 >= r.y && b.y + b.height / 2 <= r.y + r.height) back = parse(getComputedStyle(rect).fill);
      }
    }
    const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && Number(style.fontWeight) >= 700;
    if (ratio(front, back) < (large ? 3 : 4.5)) low.push(ratio(front, back).toFixed(2) + " " + n.textContent.trim().slice(0, 40));
  }
  if (seen < 5) low.push("only " + seen + " texts were seen");
  return low;
})()`
