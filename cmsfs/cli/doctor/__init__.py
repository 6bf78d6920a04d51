"""The checks of `cmsfs doctor`, and the support bundle."""
