package simengine

import (
	"encoding/json"
	"fmt"
	"math"
)

// asked is what an engine reads of a body beside the prompt.
type asked struct {
	Model     string   `json:"model"`
	Max       *float64 `json:"max_tokens"`
	MaxOfChat *float64 `json:"max_completion_tokens"`
	N         *float64 `json:"n"`
	Stream    struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	ToolChoice json.RawMessage `json:"tool_choice"`
	Messages   []struct {
		Role string `json:"role"`
	} `json:"messages"`
	Prompt json.RawMessage `json:"prompt"`

	tokens  int64 // of each choice
	cut     bool  // because they were bounded
	choices int
}

// fault is what is wrong with a request.
type fault struct {
	status               int
	message, param, code string
}

const maxChoices = 128

// readAsked reads a body that is known to be JSON, and checks it.
func readAsked(body []byte, model string) (*asked, *fault) {
	a := &asked{}
	if err := json.Unmarshal(body, a); err != nil {
		return nil, &fault{400, err.Error(), "", "invalid_value"}
	}
	if model != "" && a.Model != "" && a.Model != model {
		return nil, &fault{404, fmt.Sprintf("the model %q does not exist", a.Model), "model", "model_not_found"}
	}
	limit, name := a.MaxOfChat, "max_completion_tokens"
	if limit == nil {
		limit, name = a.Max, "max_tokens"
	}
	tokens, ok := whole(limit, defaultTokens, maxTokens)
	if !ok {
		return nil, &fault{400, fmt.Sprintf("%s %v: must be a whole number from 1 to %d", name, *limit, maxTokens), name, "invalid_value"}
	}
	n, ok := whole(a.N, 1, maxChoices)
	if !ok {
		return nil, &fault{400, fmt.Sprintf("n %v: must be a whole number from 1 to %d", *a.N, maxChoices), "n", "invalid_value"}
	}
	a.tokens, a.cut, a.choices = tokens, limit != nil, int(n)*a.prompts()
	return a, nil
}

// whole returns a number that may be left out, if it is from 1 to most.
func whole(given *float64, otherwise, most int64) (int64, bool) {
	if given == nil {
		return otherwise, true
	}
	return int64(*given), *given == math.Trunc(*given) && *given >= 1 && *given <= float64(most)
}

// prompts counts the prompts of a plain completion: a list of texts or of lists of
// tokens has several.
func (a *asked) prompts() int {
	var list []json.RawMessage
	if json.Unmarshal(a.Prompt, &list) != nil || len(list) == 0 || list[0][0] != '"' && list[0][0] != '[' {
		return 1
	}
	return len(list)
}

// tool returns the function that the answer calls, empty for none: the one that is
// named, or the first, unless the last message brings the result of a call.
func (a *asked) tool() string {
	var word string
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	switch {
	case len(a.Tools) == 0, json.Unmarshal(a.ToolChoice, &word) == nil && word == "none":
		return ""
	case json.Unmarshal(a.ToolChoice, &named) == nil && named.Function.Name != "":
		return named.Function.Name
	case word != "required" && len(a.Messages) > 0 && a.Messages[len(a.Messages)-1].Role == "tool":
		return ""
	default:
		return a.Tools[0].Function.Name
	}
}
