package main

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/prompt"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/proxy"
	turnstileprom "github.com/seed-3c5df8a4/turnstile/integrations/prometheus"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/reload"
	"github.com/seed-3c5df8a4/turnstile/sched/status"
)

// lines are the lines of all models. Models that some backend serves together, such
// as a base model and its adapters, have one line, as they load the same engines. If
// backends list no models, there is one line for all.
type lines struct {
	options *options
	log     *slog.Logger
	whole   bool           // one line, whatever the backends list
	more    []sched.Option // of each scheduler
	id      func(address string) uint64

	current atomic.Pointer[[]*line] // by name; replaced, never changed

	mu      sync.Mutex // held while the lines are changed
	policy  *policy.File
	retired []*line // their models have gone; they finish what they have
	ids     map[string]uint64
}

// line is one of them, and how it is watched.
type line struct {
	proxy.Line
	name    string // its first model when it was opened; empty if none is listed
	status  http.Handler
	figures *prometheus.Registry
	unknown unknownClasses
	named   atomic.Pointer[policy.Profile] // the profile, to look up names in; nil without one

	// Guarded by the lines' lock.
	profile  *policy.Profile
	backends []fleet.Backend
}

func newLines(o *options, file *policy.File, log *slog.Logger) *lines {
	l := &lines{options: o, log: log, policy: file, ids: make(map[string]uint64)}
	l.id = l.nextID
	l.current.Store(new([]*line))
	return l
}

// nextID numbers the backends of all lines as they come.
func (l *lines) nextID(address string) uint64 {
	id, found := l.ids[address]
	if !found {
		id = uint64(len(l.ids) + 1)
		l.ids[address] = id
	}
	return id
}

// Line implements proxy.Lines.
func (l *lines) Line(model string) *proxy.Line {
	all := *l.current.Load()
	if len(all) == 1 {
		return &all[0].Line
	}
	for _, line := range all {
		if _, found := slices.BinarySearch(line.Fleet.Models(), model); found {
			return &line.Line
		}
	}
	return nil
}

// Lines implements proxy.Lines.
func (l *lines) Lines() []*proxy.Line {
	all := *l.current.Load()
	lines := make([]*proxy.Line, len(all))
	for i, line := range all {
		lines[i] = &line.Line
	}
	return lines
}

// setBackends makes these the backends of all lines. A line stays as long as it has
// one of its models or one of its backends, and the requests that wait there with it. A fault
// changes nothing.
func (l *lines) setBackends(backends []fleet.Backend) error {
	if err := fleet.Check(backends); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	backends = slices.Clone(backends)
	for i := range backends {
		backends[i].URL = strings.TrimRight(backends[i].URL, "/")
		l.id(backends[i].URL) // in their order
	}
	old := slices.Clone(*l.current.Load())
	var next []*line
	for _, group := range l.groups(backends) {
		i := slices.IndexFunc(old, func(line *line) bool { return l.whole || related(line.backends, group) })
		if i >= 0 {
			next = append(next, old[i])
			old = slices.Delete(old, i, i+1)
		} else {
			opened, err := l.open(group)
			if err != nil {
				return err
			}
			next = append(next, opened)
		}
		next[len(next)-1].backends = group
	}
	var wg sync.WaitGroup // as each waits for the first checks
	faults := make([]error, len(next))
	for i, line := range next {
		wg.Go(func() { faults[i] = line.Fleet.Set(line.backends) })
	}
	wg.Wait()
	if err := errors.Join(faults...); err != nil {
		return err
	}
	for _, line := range old {
		_ = line.Fleet.Set(nil)
	}
	l.retired = append(l.retired, old...)
	slices.SortFunc(next, func(a, b *line) int { return strings.Compare(a.name, b.name) })
	l.current.Store(&next)
	return nil
}

// groups parts the backends so that those which share a model are together.
func (l *lines) groups(backends []fleet.Backend) (groups [][]fleet.Backend) {
	if l.whole {
		return [][]fleet.Backend{backends}
	}
	for _, b := range backends {
		group := []fleet.Backend{b}
		var apart [][]fleet.Backend
		for _, other := range groups {
			if len(b.Models) == 0 || shareModel(other, group) {
				group = slices.Concat(other, group)
			} else {
				apart = append(apart, other)
			}
		}
		apart = append(apart, group)
		groups = apart
	}
	return groups
}

func shareModel(a, b []fleet.Backend) bool {
	models := modelsOf(b)
	return slices.ContainsFunc(modelsOf(a), func(model string) bool { return slices.Contains(models, model) })
}

func modelsOf(backends []fleet.Backend) (models []string) {
	for i := range backends {
		models = append(models, backends[i].Models...)
	}
	slices.Sort(models)
	return slices.Compact(models)
}

// related tells whether a group of backends carries another on.
func related(before, now []fleet.Backend) bool {
	unlisted := len(modelsOf(before)) == 0 && len(modelsOf(now)) == 0
	return unlisted || shareModel(before, now) || slices.ContainsFunc(before, func(b fleet.Backend) bool {
		return slices.ContainsFunc(now, func(n fleet.Backend) bool { return n.URL == b.URL })
	})
}

// profileOf picks the profile of a group of backends out of a policy file: that of
// one of its models or, if they list none, of -model; else the one at the top.
func (l *lines) profileOf(file *policy.File, backends []fleet.Backend) (*policy.Profile, error) {
	models := modelsOf(backends)
	for _, model := range models {
		if profile := file.Models[model]; profile != nil {
			return profile, nil
		}
	}
	model := l.options.model
	if len(models) > 0 {
		model = models[0]
	}
	if profile, found := file.Find(model); found {
		return profile, nil
	}
	if len(file.Models) == 0 {
		return nil, fmt.Errorf("%w in the file: it is empty, or not written to its end", reload.ErrNoProfile)
	}
	return nil, fmt.Errorf("%w for the model %q in the policy, nor one at its top", reload.ErrNoProfile, model)
}

// setPolicy has all lines follow a policy file. A fault changes nothing.
func (l *lines) setPolicy(text []byte) error {
	file, err := policy.Parse(text)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := *l.current.Load()
	profiles := make([]*policy.Profile, len(all))
	for i, line := range all {
		if profiles[i], err = l.profileOf(file, line.backends); err != nil {
			return err
		}
	}
	for i, line := range all {
		// What has not changed must cost no class its deficit.
		if line.profile != nil && reflect.DeepEqual(line.profile.Config(), profiles[i].Config()) {
			continue
		}
		if err := line.Scheduler.SetProfile(profiles[i]); err != nil {
			return err
		}
		line.profile = profiles[i]
		line.named.Store(profiles[i])
	}
	l.policy = file
	for _, warning := range file.Warnings {
		l.log.Warn("file taken", "path", l.options.policyFile, "warning", warning)
	}
	return nil
}

// open opens a line for a group of backends.
func (l *lines) open(backends []fleet.Backend) (*line, error) {
	o := l.options
	opened := &line{figures: prometheus.NewRegistry()}
	config := sched.Config{BlockSize: o.blockSize, RefreshAfter: refreshAfter}
	if l.policy != nil {
		profile, err := l.profileOf(l.policy, backends)
		if err != nil {
			return nil, err
		}
		opened.profile, config.Policy = profile, &policy.File{Root: profile}
		opened.named.Store(profile)
	}
	if models := modelsOf(backends); len(models) > 0 {
		opened.name = models[0]
	}
	cache, recent := prompt.NewCache(o.cacheBlocks), status.NewRecent(recentEvents)
	s, err := sched.New(config, append([]sched.Option{
		sched.WithObserver(recent.Observe), sched.WithLogger(l.log),
		sched.WithOverlapRefresher(func(_ context.Context, blocks []uint64) ([]sched.Overlap, error) {
			return cache.Overlaps(blocks), nil
		}),
		sched.WithPrefillEstimator(func(work sched.PrefillWork) (time.Duration, bool) {
			if o.prefillRate == 0 {
				return 0, false
			}
			return time.Duration(float64(work.Tokens) / o.prefillRate * float64(time.Second)), true
		}),
	}, l.more...)...)
	if err != nil {
		return nil, err
	}
	health := o.health
	health.MaxBatchedTokens, health.Lost, health.Log, health.ID = o.maxBatched, cache.Forget, l.log, l.id
	opened.Scheduler, opened.Fleet, opened.Cache = s, fleet.New(s, health), cache
	opened.Knows = func(class string) bool {
		profile := opened.named.Load()
		return profile != nil && profile.Knows(class)
	}
	opened.status = status.New(s, status.Config{Title: title(opened.name), Recent: recent, About: opened.about, Notes: opened.notes})
	// With a label if models are listed: then there may be several.
	var figures prometheus.Registerer = opened.figures
	if opened.name != "" {
		figures = prometheus.WrapRegistererWith(prometheus.Labels{"model": opened.name}, figures)
	}
	return opened, figures.Register(turnstileprom.New(s, turnstileprom.Config{}))
}

// find returns what belongs to a line, nil if it has gone.
func (l *lines) find(wanted *proxy.Line) *line {
	for _, other := range *l.current.Load() {
		if &other.Line == wanted {
			return other
		}
	}
	return nil
}

// nameOf returns the name of a line, empty for none.
func (l *lines) nameOf(line *proxy.Line) string {
	if found := l.find(line); found != nil {
		return found.name
	}
	return ""
}

// notes tells the status page what an operator should know.
func (l *line) notes() (notes []string) {
	if l.Fleet.Doubted() {
		notes = append(notes, "Health checks fail for most backends while requests succeed: the checks are not believed, all backends go on.")
	}
	if note := l.unknown.note(time.Now()); note != "" {
		notes = append(notes, note)
	}
	return notes
}

// about tells the status page what the fleet knows of a worker.
func (l *line) about(worker uint64) status.About {
	for _, b := range l.Fleet.Statuses() {
		if b.Worker == worker {
			return status.About{Name: b.URL, Reason: b.Reason, Since: b.Since}
		}
	}
	return status.About{}
}

// title is the name by which the status page calls a line.
func title(model string) string {
	name := "Turnstile gateway"
	if host, err := os.Hostname(); err == nil {
		name += " on " + host
	}
	if model != "" {
		name += ": " + model
	}
	return name
}

// showStatus serves the status page of a line: of the only one, of the one that the
// path names, or links to all.
func (l *lines) showStatus(w http.ResponseWriter, r *http.Request) {
	all := *l.current.Load()
	name := strings.TrimPrefix(r.URL.Path, "/status/")
	switch i := slices.IndexFunc(all, func(line *line) bool { return line.name == name }); {
	case i >= 0:
		all[i].status.ServeHTTP(w, r)
	case r.URL.Path != "/status":
		http.NotFound(w, r)
	case len(all) == 1:
		all[0].status.ServeHTTP(w, r)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = linksToLines.Execute(w, l.names())
	}
}

var linksToLines = template.Must(template.New("").Parse(
	`<!doctype html><title>Turnstile</title><h1>Models</h1><ul>{{range .}}<li><a href="/status/{{.}}">{{.}}</a>{{end}}</ul>
`))

// names returns the names of all lines.
func (l *lines) names() []string {
	var names []string
	for _, line := range *l.current.Load() {
		names = append(names, line.name)
	}
	return names
}

// Gather implements prometheus.Gatherer for the figures of all lines.
func (l *lines) Gather() ([]*dto.MetricFamily, error) {
	var all prometheus.Gatherers
	for _, line := range *l.current.Load() {
		all = append(all, line.figures)
	}
	return all.Gather()
}

// run checks the backends of all lines again and again until ctx ends.
func (l *lines) run(ctx context.Context) {
	tick := time.NewTicker(l.options.checks)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.mu.Lock()
		all := append(slices.Clone(*l.current.Load()), l.retired...)
		l.mu.Unlock()
		var wg sync.WaitGroup
		for _, line := range all {
			wg.Go(func() { line.Fleet.CheckHealth(ctx) })
		}
		wg.Wait()
		l.closeRetired()
	}
}

// closeRetired closes the lines that have gone once they have finished.
func (l *lines) closeRetired() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = slices.DeleteFunc(l.retired, func(line *line) bool {
		done := len(line.Fleet.Statuses()) == 0 && line.Scheduler.Stats().Waiting == 0
		if done {
			_ = line.Scheduler.Close()
		}
		return done
	})
}
