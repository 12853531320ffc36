package main

import "sync"

const (
	// rememberedAnswers is the number of responses in memory, and rememberedBytes the size limit of one: lists of
	// versions, latest versions, and errors for missing modules.
	rememberedAnswers = 10_000
	rememberedBytes   = 64 << 10
)

// answer is a response of the upstream.
type answer struct {
	status  int
	content []byte
}

// memory has small responses of the upstream for the time when it is down. To find a module, the go command also requests
// every path above it; if one of these requests fails, the pull fails even for a module that is in the proxy's cache.
type memory struct {
	mutex   sync.Mutex
	answers map[string]answer
}

func newMemory() *memory { return &memory{answers: map[string]answer{}} }

// keep stores a response, and drops an arbitrary other one if there are too many.
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
