package fleet

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Backend is one inference engine.
type Backend struct {
	// Name is what it is called in logs, default its URL.
	Name string `yaml:"name"`
	// URL is its address, to which /v1/… is appended. A backend whose URL stays keeps
	// its load; one whose URL changes is another process, and the one before it is
	// drained.
	URL string `yaml:"url"`
	// Models are the models it serves. Either all backends list theirs or none
	// does; then each is taken to serve all.
	Models []string `yaml:"models"`
	// Ranks is the number of data-parallel ranks, default 1. With more than one,
	// the rank is told to the engine by the header X-Data-Parallel-Rank.
	Ranks uint32 `yaml:"ranks"`
	// MaxBatchedTokens and KVBlocks are those of sched.Worker, in tokens and
	// blocks; 0 means the default and unknown.
	MaxBatchedTokens int64 `yaml:"max_batched_tokens"`
	KVBlocks         int64 `yaml:"kv_blocks"`
}

// Parse reads a backends file:
//
//	backends:
//	  - url: http://gpu-1:8000
//	  - {url: http://gpu-2:8000, ranks: 2, max_batched_tokens: 8192, models: [llama]}
//
// Unknown keys are refused. The error holds all faults, one a line: those of the
// form with their lines in the file, or else all that Check finds.
func Parse(text []byte) ([]Backend, error) {
	var file listing
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, formFaults(err)
	} else if err == nil && !errors.Is(d.Decode(new(yaml.Node)), io.EOF) {
		return nil, errors.New("backends file: must be a single YAML document")
	}
	return file.Backends, Check(file.Backends)
}

// listing is what a backends file holds.
type listing struct {
	Backends []Backend `yaml:"backends"`
}

// formFaults says what the YAML reader found wrong, without the names of Go types.
func formFaults(err error) error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return fmt.Errorf("backends file: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	faults := make([]error, 0, len(wrong.Errors))
	for _, text := range wrong.Errors {
		text = unknownField.ReplaceAllString(text, `unknown key "$1"`)
		if m := wrongType.FindStringSubmatchIndex(text); m != nil {
			text = text[:m[0]] + text[m[2]:m[3]] + " must be " + kindOf(text[m[4]:m[5]])
		}
		faults = append(faults, fmt.Errorf("backends file: %s", text))
	}
	return errors.Join(faults...)
}

var (
	unknownField = regexp.MustCompile(`field (\S+) not found in type .*`)
	wrongType    = regexp.MustCompile("cannot unmarshal !!((?:seq|map)|\\w+ `.*`) into (\\S+)$")
)

// kindOf says in words what a Go type takes.
func kindOf(goType string) string {
	switch goType {
	case "fleet.listing":
		return "a mapping with the key backends"
	case "[]fleet.Backend":
		return "a list of backends"
	case "fleet.Backend":
		return "a mapping with the key url"
	case "[]string":
		return "a list of names"
	case "string":
		return "text"
	default:
		return "a whole number in range"
	}
}

// maxRanks is how many ranks a worker may have.
const maxRanks = 1024

// Check says what is wrong with a list of backends.
func Check(backends []Backend) error {
	var faults []error
	if len(backends) == 0 {
		faults = append(faults, errors.New("backends: must name at least one"))
	}
	seen, named := make(map[string]bool), make(map[string]bool)
	listing := 0
	for i, b := range backends {
		u, err := url.Parse(b.URL)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("backends[%d].url: %w", i, err))
		case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "", u.User != nil:
			faults = append(faults, fmt.Errorf("backends[%d].url %q: must be like http://host:port", i, b.URL))
		case seen[b.address()]:
			faults = append(faults, fmt.Errorf("backends[%d].url %q: is named twice", i, b.URL))
		case named[b.Name]:
			faults = append(faults, fmt.Errorf("backends[%d].name %q: is given twice", i, b.Name))
		}
		if b.Ranks > maxRanks {
			faults = append(faults, fmt.Errorf("backends[%d].ranks %d: must be at most %d", i, b.Ranks, maxRanks))
		}
		if b.MaxBatchedTokens < 0 || b.KVBlocks < 0 {
			faults = append(faults, fmt.Errorf("backends[%d]: max_batched_tokens and kv_blocks must not be negative", i))
		}
		seen[b.address()], named[b.Name] = true, b.Name != ""
		if len(b.Models) > 0 {
			listing++
		}
	}
	if listing != 0 && listing != len(backends) {
		faults = append(faults, fmt.Errorf("backends: %d of %d list their models: all must or none", listing, len(backends)))
	}
	return errors.Join(faults...)
}

// address is the URL that paths are appended to. A backend is the same as long as
// its address is.
func (b *Backend) address() string { return strings.TrimRight(b.URL, "/") }

// known is what logs call it.
func (b *Backend) known() string { return cmp.Or(b.Name, b.address()) }

// ModelTaint is the taint of the workers that serve a model.
func ModelTaint(model string) string { return "model:" + model }

func (b *Backend) worker(id uint64) sched.Worker {
	w := sched.Worker{
		ID: id, Ranks: max(1, b.Ranks), MaxBatchedTokens: b.MaxBatchedTokens, TotalKVBlocks: b.KVBlocks,
		Endpoint: b.address(),
	}
	for _, model := range b.Models {
		w.Taints = append(w.Taints, ModelTaint(model))
	}
	return w
}
