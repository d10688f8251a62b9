"""Whether a runner may judge for contests: its ceilings, the checks of `derby runner accept`, the certificate."""
