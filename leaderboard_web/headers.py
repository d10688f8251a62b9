"""What every answer tells the browser: to take nothing from elsewhere, and what it may keep."""

HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
                               "frame-ancestors 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",     # not no-referrer: browsers would then send `Origin: null` with forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",          # answers depend on who asks
}
FOR_GOOD = "public, max-age=31536000, immutable"
