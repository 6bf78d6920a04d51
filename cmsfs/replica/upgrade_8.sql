-- From format 8 to 9: a bit of a bitmap is a block of 16 KiB, where it was one of 128 KiB.  Of what is here in
-- part, nothing counts as being here; whole contents have no bitmap.

UPDATE content SET bitmap = zeroblob(((size + 16383) / 16384 + 7) / 8), verified = 0 WHERE bitmap IS NOT NULL;
