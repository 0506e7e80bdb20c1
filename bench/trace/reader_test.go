package trace

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/bench/workload"
)

const azureHead = "TIMESTAMP,ContextTokens,GeneratedTokens\n"

func line(ts, in, out, ids string) string {
	return `{"timestamp": ` + ts + `, "input_length": ` + in + `, "output_length": ` + out + `, "hash_ids": ` + ids + "}\n"
}

func TestMooncake(t *testing.T) {
	text := line("5", "600", "7", "[1, 18446744073709551615]") +
		"\n" +
		line("5", "0", "0", "[]") +
		line("8.5", "512", "1", "[1]")
	for name, text := range map[string]string{
		"LF": text, "CRLF": strings.ReplaceAll(text, "\n", "\r\n"),
		"BOM": "\xef\xbb\xbf" + text, "no end": strings.TrimSuffix(text, "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Load(strings.NewReader(text), "t", Options{})
			require.NoError(t, err)
			require.Equal(t, Mooncake, got.Kind)
			require.Equal(t, int64(512), got.Kind.Block())
			require.Equal(t, []workload.Request{
				{ISL: 600, OSL: 7, Blocks: []uint64{1, math.MaxUint64}},
				{},
				{At: 3500 * time.Microsecond, ISL: 512, OSL: 1, Blocks: []uint64{1}},
			}, got.Requests)
		})
	}
}

func TestAzure(t *testing.T) {
	rows := "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
	for name, text := range map[string]string{
		"LF": azureHead + rows, "CRLF": strings.ReplaceAll(azureHead+rows, "\n", "\r\n"),
		"BOM": "\xef\xbb\xbf" + azureHead + rows, "no end": strings.TrimSuffix(azureHead+rows, "\n"),
		"zone":   azureHead + strings.NewReplacer("6805900,", "6805900+00:00,", "9951690,", "9951690Z,").Replace(rows),
		"order":  "GeneratedTokens,TIMESTAMP,ContextTokens\n44,2023-11-16 18:15:46.68059,374\n109,2023-11-16 18:15:50.995169,396\n",
		"quoted": "\"TIMESTAMP\",\"ContextTokens\",\"GeneratedTokens\"\n" + strings.ReplaceAll(rows, ",374,", ",\"374\","),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Load(strings.NewReader(text), "t", Options{})
			require.NoError(t, err)
			require.Equal(t, Azure, got.Kind)
			require.Zero(t, got.Kind.Block())
			require.Equal(t, time.Date(2023, 11, 16, 18, 15, 46, 680590000, time.UTC), got.Start)
			require.Equal(t, []workload.Request{
				{ISL: 374, OSL: 44},
				{At: 4314579 * time.Microsecond, ISL: 396, OSL: 109},
			}, got.Requests)
		})
	}
}

func TestBadLines(t *testing.T) {
	good := line("7", "10", "1", "[1]")
	row := "2023-11-16 18:15:46.68,374,44\n"
	for name, c := range map[string]struct {
		text string
		line int
		want string
	}{
		"negative time":       {good + line("-7", "10", "1", "[1]"), 2, "timestamp -7 is negative"},
		"negative fraction":   {good + line("-7.5", "10", "1", "[1]"), 2, "timestamp -7.5 is negative"},
		"huge time":           {good + line("1e300", "10", "1", "[1]"), 2, "timestamp 1e300 is too large"},
		"text time":           {good + line(`"7"`, "10", "1", "[1]"), 2, "timestamp is not a number"},
		"negative input":      {good + line("7", "-1", "1", "[]"), 2, "input_length -1 is negative"},
		"negative output":     {good + line("7", "1", "-1", "[]"), 2, "output_length -1 is negative"},
		"fractional":          {good + line("7", "1.5", "1", "[]"), 2, `input_length "1.5" is not a whole number`},
		"huge input":          {good + line("7", "99999999999999999999", "1", "[]"), 2, "input_length 99999999999999999999 is above"},
		"very negative":       {good + line("7", "-99999999999999999999", "1", "[]"), 2, "is negative"},
		"negative hash":       {good + line("7", "10", "1", "[-4]"), 2, "hash_ids[0] -4 is negative"},
		"hash not a number":   {good + line("7", "600", "1", `[4, "5"]`), 2, "hash_ids[1] is not a number"},
		"hash too large":      {good + line("7", "600", "1", "[18446744073709551616]"), 2, "not a whole number of 64 bits"},
		"hashes not a list":   {good + line("7", "600", "1", "4"), 2, "hash_ids is not a list"},
		"too many hashes":     {good + line("7", "512", "1", "[1, 2]"), 2, "2 hash_ids, but an input_length of 512 has 1 blocks"},
		"missing":             {good + `{"timestamp": 7, "input_length": 3, "hash_ids": []}`, 2, "field output_length is missing"},
		"null":                {good + line("null", "3", "1", "[]"), 2, "timestamp is not a number"},
		"unknown":             {good + `{"timestamp": 7, "Input_length": 3}`, 2, `unknown field "Input_length"`},
		"twice":               {good + `{"timestamp": 7, "timestamp": 8}`, 2, "field timestamp occurs twice"},
		"cut off":             {good + `{"timestamp": 7, "input_le`, 2, "it ends too early"},
		"array":               {good + `[1]`, 2, "not a JSON object"},
		"garbage":             {good + "\n\nxyz", 4, "not a JSON object"},
		"two objects":         {good + `{"timestamp":7,"input_length":1,"output_length":1,"hash_ids":[]}{}`, 2, "more on the line"},
		"time back":           {good + line("6", "10", "1", "[1]"), 2, "time goes back: 1ms before"},
		"first line":          {"{]", 1, "not a JSON object"},
		"too long":            {good + strings.Repeat("x", maxLine+1) + "\n" + good, 2, "line is longer"},
		"azure extra column":  {"TIMESTAMP,ContextTokens,GeneratedTokens,Model\n" + row, 1, `unknown column "Model"`},
		"azure less columns":  {"\nTIMESTAMP,ContextTokens\n" + row, 2, "column GeneratedTokens is missing"},
		"azure column twice":  {"TIMESTAMP,ContextTokens,ContextTokens,GeneratedTokens\n", 1, "column ContextTokens occurs twice"},
		"azure extra field":   {azureHead + row + "2023-11-16 18:15:47,374,44,5\n", 3, "4 columns, the header has 3"},
		"azure few fields":    {azureHead + row + "2023-11-16 18:15:47,374\n", 3, "2 columns, the header has 3"},
		"azure empty field":   {azureHead + row + "2023-11-16 18:15:47,,4\n", 3, "ContextTokens is missing"},
		"azure negative":      {azureHead + row + "2023-11-16 18:15:47,3,-4\n", 3, "GeneratedTokens -4 is negative"},
		"azure not a number":  {azureHead + row + "2023-11-16 18:15:47,3x,4\n", 3, `ContextTokens "3x" is not a whole number`},
		"azure not a time":    {azureHead + row + "2023-11-31 18:15:47,3,4\n", 3, "is not a time"},
		"azure out of range":  {azureHead + row + "9999-11-16 18:15:47,3,4\n", 3, "is out of range"},
		"azure too far":       {azureHead + "1701-11-16 18:15:47,3,4\n2249-11-16 18:15:47,3,4\n", 3, "too far"},
		"azure time back":     {azureHead + row + "2023-11-16 18:15:45.68,3,4\n", 3, "time goes back: 1s before"},
		"azure second header": {azureHead + row + azureHead, 3, "is not a time"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(strings.NewReader(c.text), "dir/file", Options{})
			var bad *LineError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, c.line, bad.Line)
			require.Equal(t, "dir/file", bad.File)
			require.Contains(t, bad.Error(), c.want)

			skipped, err := Load(strings.NewReader(c.text), "dir/file", Options{SkipBad: true})
			if bad.Header || name == "first line" {
				require.Error(t, err, "nothing can be read without the header, or is left")
				return
			}
			require.NoError(t, err)
			require.Equal(t, 1, skipped.Bad)
			require.Equal(t, bad, skipped.Errors[0])
			require.NotEmpty(t, skipped.Requests)
		})
	}
}

func TestWholeFile(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want error
		line string
	}{
		"empty":          {"", ErrEmpty, ""},
		"blank":          {"\r\n \n", ErrEmpty, ""},
		"BOM alone":      {"\xef\xbb\xbf", ErrEmpty, ""},
		"header only":    {azureHead, ErrNoRequests, ""},
		"unknown":        {"\nhello\n", ErrUnknown, "t:2: "},
		"without header": {"2023-11-16 18:15:46.68,374,44\n", ErrUnknown, "t:1: "},
		"UTF-16":         {"\xff\xfe{\x00", ErrUnknown, "t:1: "},
		"all lines bad":  {"{\n{\n", ErrNoRequests, "each of its 2 lines is bad, the first: t:1: "},
		"other CSV":      {"a,b\n1,2\n", ErrUnknown, "t:1: "},
		"broken stream":  {"broken", io.ErrClosedPipe, "t: "},
		"broken midway":  {azureHead + "broken", io.ErrClosedPipe, "t: "},
	} {
		t.Run(name, func(t *testing.T) {
			var src io.Reader = strings.NewReader(c.text)
			if before, ok := strings.CutSuffix(c.text, "broken"); ok {
				src = io.MultiReader(strings.NewReader(before), failing{})
			}
			_, err := Load(src, "t", Options{SkipBad: true})
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.line)
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestSortAndLimit(t *testing.T) {
	text := line("7", "3", "1", "[]") + line("5", "2", "1", "[]") + line("5", "1", "1", "[]")
	got, err := Load(strings.NewReader(text), "t", Options{Sort: true})
	require.NoError(t, err)
	require.Equal(t, []workload.Request{
		{At: 0, ISL: 2, OSL: 1}, {At: 0, ISL: 1, OSL: 1}, {At: 2 * time.Millisecond, ISL: 3, OSL: 1},
	}, got.Requests)

	got, err = Load(strings.NewReader(text), "t", Options{Limit: 1})
	require.NoError(t, err, "what comes after the limit is not read")
	require.Len(t, got.Requests, 1)
}

func TestLongLine(t *testing.T) {
	ids := "[" + strings.TrimSuffix(strings.Repeat("123456789,", 40_000), ",") + "]"
	got, err := Load(strings.NewReader(line("0", "20480000", "1", ids)), "t", Options{})
	require.NoError(t, err)
	require.Len(t, got.Requests[0].Blocks, 40_000)
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(line("5", "600", "7", "[1, 2]") + line("5", "6", "7", "[1]")))
	f.Add([]byte("\xef\xbb\xbf" + azureHead + "2023-11-16 18:15:46.6805900,374,44\r\n"))
	f.Add([]byte(line("9", "1", "1", "[]") + "{\n\n" + line("8", "1", "1", "[]")))
	f.Add([]byte("TIMESTAMP,ContextTokens\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := NewReader(strings.NewReader(string(data)), "f")
		if err != nil {
			return
		}
		last := time.Duration(0)
		for {
			request, err := r.Read()
			var bad *LineError
			if errors.As(err, &bad) {
				if bad.Line < 1 || bad.Line > strings.Count(string(data), "\n")+1 {
					t.Fatalf("no such line: %v", err)
				}
				continue
			}
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, ErrNoRequests) {
					t.Fatal(err)
				}
				return
			}
			if request.At < last || request.ISL < 0 || request.OSL < 0 ||
				int64(len(request.Blocks)) > (request.ISL+MooncakeBlock-1)/MooncakeBlock {
				t.Fatalf("not a valid request: %+v", request)
			}
			last = request.At
		}
	})
}
