"""Pictures of users."""

from cmsfs.models.base import Model


class PictureUrls(Model):
    small: str
    large: str
    preview: str


class Avatar(Model):
    pic_urls: PictureUrls
