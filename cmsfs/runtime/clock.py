"""What time it is, and how long something takes."""

import time as _time
from datetime import date, datetime

# Seconds and nanoseconds of the clock on the wall, which people set.
time, time_ns = _time.time, _time.time_ns
# Seconds since some moment, by a clock that nobody sets.
monotonic = _time.monotonic
clock_gettime = _time.clock_gettime
datetime_now, date_today = datetime.now, date.today
# For programs that wait for others outside of any run of trio.
sleep = _time.sleep
