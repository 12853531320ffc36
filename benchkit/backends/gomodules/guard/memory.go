package main

import "sync"

const (
	// rememberedAnswers is how many answers are remembered, and rememberedBytes how long one may be: lists, latest
	// versions, and that there is nothing.
	rememberedAnswers = 10_000
	rememberedBytes   = 64 << 10
)

// answer is a whole answer of the upstream.
type answer struct {
	status  int
	content []byte
}

// memory has small answers of the upstream, for when it is away: to look for a module the go command asks for every path
// above it too, and where one of these questions fails, the pull of a module that is in the proxy's cache fails with it.
type memory struct {
	mutex   sync.Mutex
	answers map[string]answer
}

func newMemory() *memory { return &memory{answers: map[string]answer{}} }

// keep remembers an answer, in the place of any other when there are too many.
func (m *memory) keep(path string, given answer) {
	if len(given.content) > rememberedBytes {
		return
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if _, known := m.answers[path]; !known && len(m.answers) >= rememberedAnswers {
		for other := range m.answers {
			delete(m.answers, other)
			break
		}
	}
	m.answers[path] = given
}

func (m *memory) find(path string) (answer, bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	found, known := m.answers[path]
	return found, known
}
