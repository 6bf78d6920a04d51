"""The person's desktop: notifications and thumbnails."""
