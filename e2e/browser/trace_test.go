package browser

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var screenshots = flag.String("screenshots", os.Getenv("SCREENSHOTS"), "a folder for a picture of each page at each width and in each scheme")

// further are pages of other commands: of a pod that waits, of one among several that
// follow a lost node, of one that runs; of a node that something would hang on, of a lost
// one with forty pods, of one that only the timers hold up.
var further = map[string][]string{
	"trace-stuck":       {"vd301-backoff-drop", "trace", "pod/web-0"},
	"trace-words":       {"vd401-driver-refuses", "trace", "pod/web-0"},
	"trace-gap":         {"vd301-no-events", "trace", "pod/web-0"},
	"trace-running":     {"healthy-background", "trace", "pod/db-0"},
	"preflight-hangs":   {"vd103-driver-refuses", "preflight", "node/n1"},
	"preflight-forty":   {"vd102-forty-pods", "preflight", "node/n1"},
	"preflight-healthy": {"healthy-background", "preflight", "node/worker-a"},
}

// TestTraceAndPreflightInABrowser holds their pages to what TestReportInABrowser holds
// the report's to.
func TestTraceAndPreflightInABrowser(t *testing.T) {
	ctx := start(t)
	for name, p := range further {
		inABrowser(t, ctx, name, page(t, p[0], p[1:]...))
	}
}

// TestTraceAndPreflightByKeyboard: the Tab key comes to everything that can be used, each
// time with an outline, and Enter unfolds what is folded.
func TestTraceAndPreflightByKeyboard(t *testing.T) {
	ctx := start(t)
	for name, p := range further {
		t.Run(name, func(t *testing.T) {
			tab, cancel := chromedp.NewContext(ctx)
			defer cancel()
			must(t, chromedp.Do(tab, chromedp.Navigate(page(t, p[0], p[1:]...))))
			usable := evaluate[int](t, tab, `document.querySelectorAll("a[href], button, summary, input, select").length`)
			for i := range usable {
				must(t, chromedp.Do(tab, chromedp.KeyEvent(kb.Tab)))
				at := evaluate[stop](t, tab, visit)
				if !at.New || !at.Outline || !at.Seen {
					t.Fatalf("stop %d of %d: %+v", i+1, usable, at)
				}
				if i == 0 && !strings.HasPrefix(at.Text, "Skip to") {
					t.Errorf("the first stop is %q", at.Text)
				}
			}
			if folds := evaluate[int](t, tab, `document.querySelectorAll("details:not([open])").length`); folds > 0 {
				must(t, chromedp.Do(tab, chromedp.Focus("details:not([open]) > summary"), chromedp.KeyEvent(kb.Enter)))
				if left := evaluate[int](t, tab, `document.querySelectorAll("details:not([open])").length`); left != folds-1 {
					t.Errorf("Enter left %d of %d folds closed", left, folds)
				}
			}
			if commands := evaluate[int](t, tab, `document.querySelectorAll(".command button").length`); commands > 0 {
				must(t, chromedp.Do(tab, chromedp.Focus(".command button"), chromedp.KeyEvent(kb.Enter)))
				told, err := chromedp.Run(tab, chromedp.Poll[string](`document.getElementById("told").textContent`))
				must(t, err)
				if told != "Copied" {
					t.Errorf("after the button: %q", told)
				}
			}
		})
	}
}

// stop is where the focus is.
type stop struct {
	Text               string
	New, Outline, Seen bool
}

const visit = `(() => {
  const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
  const fresh = e !== document.body && !e.dataset.visited;
  e.dataset.visited = "yes";
  return { Text: e.textContent, New: fresh, Outline: style.outlineStyle !== "none", Seen: box.width > 0 && box.right > 0 && box.bottom > 0 && box.top < innerHeight };
})()`

// TestPrintLosesNothing: on paper every text of a page is shown, also what is folded on
// the screen, with scripts and without.
func TestPrintLosesNothing(t *testing.T) {
	pages := map[string][]string{"report": {"vd301-backoff-drop"}, "report-forty": {"vd102-forty-pods"}}
	for name, p := range further {
		pages[name] = p
	}
	ctx := start(t)
	folded := 0
	for name, p := range pages {
		address := page(t, p[0], p[1:]...)
		for scripts, disabled := range map[string]bool{"scripts": false, "no scripts": true} {
			t.Run(name+"/"+scripts, func(t *testing.T) {
				tab, cancel := chromedp.NewContext(ctx)
				defer cancel()
				call(t, tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: disabled})
				must(t, chromedp.Do(tab, chromedp.Navigate(address)))
				folded += len(evaluate[[]string](t, tab, unseen))
				call(t, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
				if lost := evaluate[[]string](t, tab, unseen); len(lost) > 0 {
					t.Errorf("not on paper: %q", lost[:min(len(lost), 5)])
				}
			})
		}
	}
	if folded == 0 {
		t.Error("nothing was folded on the screen: the test sees nothing")
	}
}

// unseen are the texts that are not shown, but for those that only the screen needs.
const unseen = `(() => {
  const lost = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const e = n.parentElement;
    if (!n.textContent.trim() || e.closest("script, style, svg, button, #search, .skip")) continue;
    const range = document.createRange();
    range.selectNodeContents(n);
    if (!e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || range.getClientRects().length === 0) lost.push(n.textContent.trim());
  }
  return lost;
})()`

// shoot keeps a picture of the whole page, where the flag asks for it.
func shoot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if *screenshots == "" {
		return
	}
	beyond := true
	picture, err := chromedp.Call(ctx, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{CaptureBeyondViewport: &beyond})
	must(t, err)
	must(t, os.MkdirAll(*screenshots, 0o755))
	must(t, os.WriteFile(filepath.Join(*screenshots, name+".png"), picture.Data, 0o644))
}
