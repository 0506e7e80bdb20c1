package turnstileprom_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	turnstileprom "github.com/seed-3c5df8a4/turnstile/integrations/prometheus"
)

// metricsql reads a superset of PromQL with few dependencies; Prometheus's own
// parser would put its whole module graph into that of whoever uses the collector.

func gather(t *testing.T, c prometheus.Collector) map[string]*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	byName := make(map[string]*dto.MetricFamily)
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

// exported returns the series that can be queried, with their labels.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	series := make(map[string][]string)
	for name, family := range gather(t, turnstileprom.New(busy(), turnstileprom.Config{Scheduler: "llama"})) {
		labels := []string{"job", "instance"}
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		if family.GetType() == dto.MetricType_HISTOGRAM {
			series[name+"_sum"], series[name+"_count"] = labels, labels
			name += "_bucket"
			labels = append(slices.Clone(labels), "le")
		}
		series[name] = labels
	}
	return series
}

// checkExpr reads an expression and returns the names it uses, each of which is
// exported and has the labels asked for.
func checkExpr(t *testing.T, expr string, series map[string][]string) (used []string) {
	t.Helper()
	parsed, err := metricsql.Parse(expr)
	require.NoError(t, err, expr)
	metricsql.VisitAll(parsed, func(e metricsql.Expr) {
		switch e := e.(type) {
		case *metricsql.MetricExpr:
			for _, filters := range e.LabelFilterss {
				require.Equal(t, "__name__", filters[0].Label, expr)
				name := filters[0].Value
				labels, found := series[name]
				require.True(t, found, "%s is not exported: %s", name, expr)
				used = append(used, name)
				for _, f := range filters[1:] {
					require.Contains(t, labels, f.Label, expr)
				}
			}
		case *metricsql.AggrFuncExpr:
			for _, label := range e.Modifier.Args {
				for _, name := range names(e) {
					require.Contains(t, series[name], label, expr)
				}
			}
		case *metricsql.FuncExpr:
			if e.Name == "rate" || e.Name == "increase" {
				over, ok := e.Args[0].(*metricsql.RollupExpr)
				require.True(t, ok && over.Window != nil, "%s needs a range: %s", e.Name, expr)
				for _, name := range names(e) {
					require.True(t, counts(name), "%s of %s, which is no counter: %s", e.Name, name, expr)
				}
			}
		}
	})
	return used
}

func names(e metricsql.Expr) (all []string) {
	metricsql.VisitAll(e, func(e metricsql.Expr) {
		if m, ok := e.(*metricsql.MetricExpr); ok {
			for _, filters := range m.LabelFilterss {
				all = append(all, filters[0].Value)
			}
		}
	})
	return all
}

// counts reports whether a series only grows.
func counts(name string) bool {
	for _, suffix := range []string{"_total", "_bucket", "_sum", "_count"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

func TestAlertsUseWhatIsExported(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&file))
	series, seen := exported(t), make(map[string]bool)
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			require.False(t, seen[rule.Alert], rule.Alert)
			seen[rule.Alert] = true
			require.NotEmpty(t, checkExpr(t, rule.Expr, series), rule.Alert)
			require.Contains(t, []string{"critical", "warning", "info"}, rule.Labels["severity"], rule.Alert)
			require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
			require.NotEmpty(t, rule.Annotations["description"], rule.Alert)
		}
	}
	require.NotEmpty(t, seen)
}

// The dashboard shows every metric there is, and none other.
func TestDashboardUsesWhatIsExported(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr, RefID string }
		}
		Templating struct {
			List []struct {
				Name, Type, Definition string
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	series, shown, ids := exported(t), make(map[string]bool), make(map[int]bool)
	for _, panel := range board.Panels {
		require.False(t, ids[panel.ID], "two panels have id %d", panel.ID)
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
			for _, name := range checkExpr(t, expr, series) {
				shown[name] = true
			}
		}
	}
	for _, v := range board.Templating.List {
		if v.Type == "query" {
			// label_values(selector, label) is Grafana's.
			inside := strings.TrimSuffix(strings.TrimPrefix(v.Definition, "label_values("), ")")
			comma := strings.LastIndex(inside, ", ")
			for _, name := range checkExpr(t, inside[:comma], series) {
				require.Contains(t, series[name], inside[comma+2:], v.Definition)
			}
		}
	}
	for name := range gather(t, turnstileprom.New(busy(), turnstileprom.Config{})) {
		require.True(t, shown[name] || shown[name+"_bucket"], "%s is not on the dashboard", name)
	}
}
