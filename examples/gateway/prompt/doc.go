// Package prompt reads what a scheduler needs to know out of an OpenAI-style
// request body, and remembers which rank computed which prompts.
//
// The gateway has no tokenizer: it counts 4 bytes of text as one token, which is
// about right for English and errs by less than a factor of two elsewhere. Load
// and overlap are compared with one another only, so what matters is that all
// requests are measured alike. A prompt that comes as token ids is exact.
package prompt
