"""Wall-clock and monotonic time."""

import time as _time
from datetime import date, datetime

# Seconds and nanoseconds of the wall clock, which can be adjusted.
time, time_ns = _time.time, _time.time_ns
# Seconds since an arbitrary moment, by a clock that is never adjusted.
monotonic = _time.monotonic
clock_gettime = _time.clock_gettime
datetime_now, date_today = datetime.now, date.today
# For code that waits outside of a trio run.
sleep = _time.sleep
