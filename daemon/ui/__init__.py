"""The drive's own page in the browser: `cmsfs ui`."""
