package cmd

import (
	"context"
	"time"
)

// SleepBy puts another way to wait in place of the clock.
func SleepBy(wait func(context.Context, time.Duration) error) { sleep = wait }
