"""Desktop integration: notifications and thumbnails."""
