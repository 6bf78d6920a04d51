// SHA-1 of bytes that come piece by piece: the browser's own needs TLS, and all of them at once.
class Sha1 {
  constructor() {
    this.state = Int32Array.of(0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0);
    this.words = new Int32Array(80);
    this.rest = new Uint8Array(64); // bytes that do not fill a block yet
    this.size = 0;
  }

  update(bytes) {
    let at = 0;
    const held = this.size % 64;
    this.size += bytes.length;
    if (held) {
      at = Math.min(64 - held, bytes.length);
      this.rest.set(bytes.subarray(0, at), held);
      if (held + at < 64) return this;
      this.block(new DataView(this.rest.buffer), 0);
    }
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (; at + 64 <= bytes.length; at += 64) this.block(view, at);
    this.rest.set(bytes.subarray(at));
    return this;
  }

  block(view, at) {
    const { state, words } = this;
    for (let i = 0; i < 16; i += 1) words[i] = view.getInt32(at + 4 * i);
    for (let i = 16; i < 80; i += 1) {
      const word = words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16];
      words[i] = (word << 1) | (word >>> 31);
    }
    let a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], next = 0, i = 0;
    for (; i < 20; i += 1) {
      next = (((a << 5) | (a >>> 27)) + (d ^ (b & (c ^ d))) + e + words[i] + 0x5a827999) | 0;
      e = d; d = c; c = (b << 30) | (b >>> 2); b = a; a = next;
    }
    for (; i < 40; i += 1) {
      next = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + e + words[i] + 0x6ed9eba1) | 0;
      e = d; d = c; c = (b << 30) | (b >>> 2); b = a; a = next;
    }
    for (; i < 60; i += 1) {
      next = (((a << 5) | (a >>> 27)) + ((b & c) | (d & (b | c))) + e + words[i] - 0x70e44324) | 0;
      e = d; d = c; c = (b << 30) | (b >>> 2); b = a; a = next;
    }
    for (; i < 80; i += 1) {
      next = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + e + words[i] - 0x359d3e2a) | 0;
      e = d; d = c; c = (b << 30) | (b >>> 2); b = a; a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
  }

  // The digest as a string of bytes; no more bytes may follow.
  digest() {
    const bits = this.size * 8;
    const end = new Uint8Array(((119 - (this.size % 64)) % 64) + 9);
    end[0] = 0x80;
    const view = new DataView(end.buffer, end.length - 8);
    view.setUint32(0, Math.floor(bits / 2 ** 32));
    view.setUint32(4, bits % 2 ** 32);
    this.update(end);
    const found = new DataView(new ArrayBuffer(20));
    this.state.forEach((word, i) => found.setInt32(4 * i, word));
    return String.fromCharCode(...new Uint8Array(found.buffer));
  }
}
