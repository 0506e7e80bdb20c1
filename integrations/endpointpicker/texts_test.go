package endpointpicker_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/integrations/endpointpicker"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func read(t *testing.T, x *endpointpicker.Texts, body string) *sched.Request {
	t.Helper()
	r, err := x.Request(t.Context(), http.Header{}, []byte(body))
	require.NoError(t, err)
	return r
}

// common returns how many blocks two prompts begin with alike.
func common(a, b *sched.Request) (n int) {
	for n < min(len(a.Blocks), len(b.Blocks)) && a.Blocks[n] == b.Blocks[n] {
		n++
	}
	return n
}

func TestTextsOfAllKinds(t *testing.T) {
	t.Parallel()
	x := endpointpicker.NewTexts(16, 0)
	long := strings.Repeat("l", 640)
	for name, test := range map[string]struct{ short, long string }{
		"chat": {`"messages": [{"role":"user","content":"` + long + `"}]`,
			`"messages": [{"role": "user", "content":"` + long + `"}, {"role":"assistant","content":"` + long + `"}]`},
		"completion": {`"prompt": "` + long + `"`, `"prompt": "` + long + long + `"`},
		"responses": {`"instructions": "be", "input": [{"role":"user","content":"` + long + `"}]`,
			`"input": [{"role":"user","content":"` + long + `"}, 1], "instructions": "be"`},
		"messages": {`"system": "` + long + `", "messages": [1]`, `"messages": [2], "system": "` + long + `"`},
		"ids":      {`"prompt": [` + strings.Repeat("7,", 200) + `8]`, `"prompt": [` + strings.Repeat("7,", 300) + `8]`},
	} {
		short, long := read(t, x, "{"+test.short+"}"), read(t, x, "{"+test.long+"}")
		require.GreaterOrEqual(t, len(short.Blocks), 10, name)
		require.GreaterOrEqual(t, common(short, long), len(short.Blocks)-1, name)
		other := read(t, x, `{"model": "other", `+test.short+"}")
		require.Zero(t, common(short, other), name)
		salted := read(t, x, `{"cache_salt": "s", `+test.short+"}")
		require.Zero(t, common(short, salted), name)
		require.Equal(t, short.Blocks, read(t, x, `{"cache_salt": null, `+test.short+"}").Blocks)
	}
	require.EqualValues(t, 201, read(t, x, `{"prompt": [`+strings.Repeat("7,", 200)+`8]}`).ISL, "token ids are exact")
	require.EqualValues(t, 0, read(t, x, `{}`).ISL)
}

func TestTextsLimits(t *testing.T) {
	t.Parallel()
	x := endpointpicker.NewTexts(0, -1)
	for body, want := range map[string]int64{
		`{}`: 0, `{"max_tokens": 7}`: 7, `{"max_tokens": 7, "max_completion_tokens": 9, "n": 2}`: 18, `{"max_output_tokens": 5, "n": 0}`: 5,
		`{"max_tokens": -1}`: 0, `{"max_tokens": 1e300}`: 1<<31 - 1,
	} {
		require.Equal(t, want, read(t, x, body).ExpectedOSL, body)
	}
}

func TestTextsHeaders(t *testing.T) {
	t.Parallel()
	x := endpointpicker.NewTexts(16, 0)
	h := http.Header{}
	h.Set("x-gateway-inference-objective", "batch")
	h.Set("content-length", "400")
	r, err := x.Request(t.Context(), h, nil)
	require.NoError(t, err)
	require.Equal(t, &sched.Request{Class: "batch", ISL: 100}, r)
	h.Set("x-turnstile-class", "chat")
	h.Set("x-turnstile-priority", "3")
	h.Set("x-turnstile-no-queue", "true")
	h.Set("content-type", "multipart/form-data; boundary=x")
	r, err = x.Request(t.Context(), h, []byte("no JSON"))
	require.NoError(t, err)
	require.Equal(t, &sched.Request{Class: "chat", Priority: 3, DoNotQueue: true, ISL: 100}, r)
	h.Set("content-length", "-5")
	r, err = x.Request(t.Context(), h, nil)
	require.NoError(t, err)
	require.Zero(t, r.ISL)
}

func TestTextsRemember(t *testing.T) {
	t.Parallel()
	x := endpointpicker.NewTexts(1, 10)
	a, b := read(t, x, `{"prompt": "`+strings.Repeat("a", 19)+`"}`), read(t, x, `{"prompt": "`+strings.Repeat("b", 31)+`"}`)
	one, two := sched.RankID{Worker: 1}, sched.RankID{Worker: 2}
	x.Computed(one, a)
	x.Computed(two, a)
	again := read(t, x, `{"prompt": "`+strings.Repeat("a", 11)+`"}`)
	require.ElementsMatch(t, []sched.Overlap{{Rank: one, Device: 2}, {Rank: two, Device: 2}}, again.Overlaps)
	x.Forget(2)
	x.Computed(one, b) // 8 of 10
	require.Equal(t, []sched.Overlap{{Rank: one, Device: 2}}, read(t, x, `{"prompt": "`+strings.Repeat("a", 19)+`"}`).Overlaps)
	x.Computed(one, &sched.Request{})
}

func FuzzTexts(f *testing.F) {
	for _, seed := range []string{`{"prompt":"x"}`, `{"messages":[{"content":[{}]}]}`, `{"input":[1,2]}`, `[]`, `{"prompt":[[1],"x",null]}`, `{"n":-1,"max_tokens":1}`} {
		f.Add([]byte(seed))
	}
	x := endpointpicker.NewTexts(1, 0)
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := x.Request(t.Context(), http.Header{}, body)
		if err == nil && (r.ISL < 0 || r.ExpectedOSL < 0 || int64(len(r.Blocks)) > r.ISL) {
			t.Fatalf("%+v", r)
		}
	})
}
