/* The model without its interface: tokenizer, transformer or RNN with attention, greedy search.

   A sequence is an array of vectors, one Float32Array for each position; sums are in double precision. Axes as in heed:
   S source, T target, D model, H heads, E per head, V vocabulary. Edits of attention are values passed in, and attention
   weights are values returned. */
"use strict";
const PAD = 0, UNK = 1, BOS = 2, EOS = 3;

/* ---- Tokenizer: byte pair encoding (Sennrich et al. 2016) and unigram models (Kudo 2018), as SentencePiece applies them. */
const SPACE = "▁", REPLACEMENT = "\ufffd";

class Tokenizer {
  /* types: a digit for each piece, as in SentencePiece: 1 normal, 2 unknown, 3 control, 5 unused, 6 byte.
     size: pieces from this id on segment text, and are <unk>. charsmap: SentencePiece's table of normalization. */
  constructor({ pieces, scores, types, unigram, size, charsmap }) {
    Object.assign(this, { pieces, scores, types, unigram, size });
    const ofType = type => new Map(pieces.flatMap((piece, id) => types[id] === type ? [[piece, id]] : []));
    this.ids = ofType("1");
    this.unused = ofType("5");
    this.byteIds = ofType("6");   // of <0x00> … <0xFF>; without them, unknown characters are <unk>
    this.replace = charsmap ? replacer(Uint8Array.from(atob(charsmap), character => character.charCodeAt(0))) : text => text;
  }

  /* Single spaces only, one before each word. */
  normalize(text) {
    const words = this.replace(text).replace(/^ +/, "");
    return words && `${SPACE}${words.replace(/ +/g, SPACE)}`.replace(/▁+$/, "");
  }

  /* A source text with a space for each character of white space for which there is no piece, as heed's translator reads it. */
  withKnownSpaces(text) {
    const isKnown = space => this.segment(space).every(id => this.types[id] === "1");
    return text.replace(/(?!\ufeff)[\s\x1c-\x1f\x85]/g, space => isKnown(space) ? space : " ");
  }

  encode(text) {
    return /[^\s\x1c-\x1f\x85]|\ufeff/.test(text) ? this.segment(text) : [];   // none for white space of any script
  }

  segment(text) {
    const characters = [...this.normalize(text)], parts = this.unigram ? this.mostProbable(characters) : this.merged(characters);
    const ids = [];
    let unknown = "";   // adjacent unknown characters, whose text may be a piece of the other side
    for (const part of [...parts, ""]) {
      const id = this.ids.get(part);
      if (id === undefined && part && !this.byteIds.size) { unknown += part; continue; }
      if (unknown) ids.push(this.unused.get(unknown) ?? UNK);
      unknown = "";
      ids.push(...id === undefined ? this.bytes(part) : [id]);
    }
    return ids.map(id => id < this.size ? id : UNK);
  }

  /* Merge the pair of neighbours with the best score, the first one of equals, until no pair is a piece. */
  merged(parts) {
    const score = i => this.scores[i + 1 < parts.length ? this.ids.get(parts[i] + parts[i + 1]) : -1] ?? -Infinity;
    const merges = parts.map((_, i) => score(i));
    for (;;) {
      const best = merges.reduce((best, each, i) => each > merges[best] ? i : best, 0);
      if (!(merges[best] > -Infinity)) break;
      parts.splice(best, 2, parts[best] + parts[best + 1]);
      merges.splice(best, 1);
      for (const i of [best - 1, best]) if (i >= 0) merges[i] = score(i);
    }
    return parts;
  }

  /* The segmentation with the largest sum of log p, in single precision; an unknown character is worse than every piece. */
  mostProbable(characters) {
    const known = [...this.ids.values()].map(id => this.scores[id]), penalty = Math.fround(Math.min(...known) - 10);
    const longest = Math.max(...[...this.ids.keys()].map(piece => [...piece].length)), best = [{ score: 0 }];
    characters.forEach((_, start) => {
      for (let end = start + 1; end <= Math.min(characters.length, start + longest); end++) {
        const id = this.ids.get(characters.slice(start, end).join(""));
        if (id === undefined && end > start + 1) continue;
        const score = Math.fround(best[start].score + (id === undefined ? penalty : this.scores[id]));
        if (!(best[end]?.score >= score)) best[end] = { start, score };
      }
    });
    const parts = [];
    for (let end = characters.length; end > 0; end = best[end].start) parts.unshift(characters.slice(best[end].start, end).join(""));
    return parts;
  }

  bytes(part) {
    const name = byte => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
    return Array.from(new TextEncoder().encode(part), byte => this.byteIds.get(name(byte)) ?? UNK);
  }

  decode(ids) {
    let text = "", bytes = [];
    for (const id of [...ids.filter(id => this.types[id] !== "3"), null]) {
      if (id !== null && this.types[id] === "6") { bytes.push(parseInt(this.pieces[id].slice(3, -1), 16)); continue; }
      text += utf8(bytes);
      bytes = [];
      if (id === null) break;
      const piece = id === UNK ? " ⁇ " : text ? this.pieces[id] : this.pieces[id].replace(/^▁/, "");
      text += piece.replaceAll(SPACE, " ");
    }
    return text.replace(/[\n\r\t]/g, " ");
  }
}

/* The function that replaces, at each place, the longest key of a table. The table is a trie in a double array (Aoe 1989, in
   the layout of Darts-clone): its size in bytes, its units of 32 bits, then the replacements, each ended by a zero. */
function replacer(table) {
  const size = new DataView(table.buffer).getUint32(0, true), units = new Uint32Array(table.slice(4, 4 + size).buffer);
  const encoder = new TextEncoder(), decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const replacement = start => decoder.decode(table.subarray(start, table.indexOf(0, start)));
  const offset = unit => (unit >>> 10) << ((unit & 512) >>> 6);
  return text => {
    const bytes = encoder.encode(text), parts = [];
    for (let at = 0; at < bytes.length;) {
      let node = offset(units[0]), end = at, found = null;
      for (let i = at; i < bytes.length; i++) {
        node ^= bytes[i];
        const unit = units[node];
        if (((unit & 0x800000ff) >>> 0) !== bytes[i]) break;
        node ^= offset(unit);
        if (unit >>> 8 & 1) [end, found] = [i + 1, 4 + size + (units[node] & 0x7fffffff)];
      }
      if (found === null) { end = at + 1; while ((bytes[end] & 0xc0) === 0x80) end++; }
      parts.push(found === null ? decoder.decode(bytes.subarray(at, end)) : replacement(found));
      at = end;
    }
    return parts.join("");
  };
}

/* Each byte that starts no character becomes U+FFFD by itself. */
function utf8(bytes) {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let text = "";
  for (let start = 0; start < bytes.length;) {
    let size = 1, character = REPLACEMENT;
    for (const n of [1, 2, 3, 4]) {
      try { character = decoder.decode(Uint8Array.from(bytes.slice(start, start + n))); size = n; break; } catch { /* no character */ }
    }
    text += character;
    start += size;
  }
  return text;
}

/* ---- Weights: int8 or int10 with a scale for each row, or float32, in base64. Names become nested objects. */
function readWeights({ tensors, weights }) {
  const text = atob(weights), bytes = new Uint8Array(text.length), root = {};
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  let at = 0;
  const take = size => bytes.buffer.slice(at, at += size);
  for (const [name, shape, type] of tensors) {
    const [rows, columns] = shape.length > 1 ? shape : [1, shape[0]];
    let data;
    if (type !== "float32") {
      const scales = new Float32Array(take(4 * rows));
      data = new Float32Array(new Int8Array(take(rows * columns)));
      if (type === "int10") { // the two lowest bits
        const rest = new Uint8Array(take(Math.ceil(data.length / 4)));
        for (let i = 0; i < data.length; i++) data[i] = 4 * data[i] + (rest[i >> 2] >> 2 * (i & 3) & 3);
      }
      for (let i = 0; i < data.length; i++) data[i] *= scales[Math.floor(i / columns)];
    } else data = new Float32Array(take(4 * rows * columns));
    const path = name.split("."), last = path.pop();
    const parent = path.reduce((node, key) => node[key] ??= {}, root);
    parent[last] = shape.length > 1 ? { data, rows, columns } : data;
  }
  return root;
}

/* ---- Vectors. */
const range = n => Array.from({ length: n }, (_, i) => i);
const sum = (x, y) => x.map((value, i) => value + y[i]);
const concat = (...parts) => Float32Array.from(parts.flatMap(part => [...part]));
const sigmoid = x => 1 / (1 + Math.exp(-x));
const ACTIVATIONS = { relu: value => Math.max(0, value), silu: value => value * sigmoid(value) };

/* W x + b */
function linear({ weight: { data, rows, columns }, bias }, x) {
  const y = new Float32Array(rows);
  for (let r = 0, w = 0; r < rows; r++) {
    let a = 0, b = 0;   // two sums run in parallel
    const end = w + columns - columns % 2;
    for (let c = 0; w < end; c += 2, w += 2) { a += data[w] * x[c]; b += data[w + 1] * x[c + 1]; }
    if (columns % 2) a += data[w++] * x[columns - 1];
    y[r] = a + b + (bias ? bias[r] : 0);
  }
  return y;
}

/* (x − mean) / √(var + ε) · g + b (Ba et al. 2016, eq. 4) */
function layerNorm({ weight, bias }, x) {
  const mean = x.reduce((a, b) => a + b, 0) / x.length;
  const variance = x.reduce((total, value) => total + (value - mean) ** 2, 0) / x.length;
  return x.map((value, i) => (value - mean) / Math.sqrt(variance + 1e-5) * weight[i] + bias[i]);
}

function softmax(scores) {
  const most = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const exp = Float64Array.from(scores, score => Math.exp(score - most)), total = exp.reduce((a, b) => a + b, 0);
  return Float32Array.from(exp, value => value / total);
}

/* ---- Edits of attention: {kind, layer, head, query, weights}. They replace the weights of the rows that they select by
   the given ones, or by zeros if those are null: the head is off. A layer, head or query of null selects all. The last
   edit of a row counts, but no edit turns on what is off. */
function edited(edits, kind, layer, head, query, weights) {
  const wanted = { layer, head, query };
  const found = edits.filter(edit => edit.kind === kind && Object.keys(wanted).every(key => (edit[key] ?? wanted[key]) === wanted[key]));
  if (found.some(edit => edit.weights === null)) return new Float32Array(weights.length);
  return found.length ? Float32Array.from(found.at(-1).weights) : weights;
}

/* ---- The transformer (Vaswani et al. 2017). */
class Transformer {
  constructor({ config, tensors, weights }) {
    Object.assign(this, config, readWeights({ tensors, weights }));
    this.layers = { encoder: Object.values(this.encoder), decoder: Object.values(this.decoder) };
    const { encoder, decoder } = this.layers;
    this.attentionLayers = { cross: decoder.length, encoder_self: encoder.length, decoder_self: decoder.length };
  }

  /* √D · E[token], plus PE(position) if positions are sinusoidal: PE(pos, 2i) = sin(pos / 10000^(2i/D)) and PE(pos, 2i + 1)
     = cos(same) (§3.4, 3.5). */
  embed({ weight: { data, columns } }, token, position) {
    const x = data.slice(token * columns, (token + 1) * columns).map(value => value * Math.sqrt(columns));
    return this.positions !== "sinusoidal" ? x : x.map((value, d) => {
      const angle = position / 10_000 ** ((d - d % 2) / columns);
      return value + (d % 2 ? Math.cos(angle) : Math.sin(angle));
    });
  }

  /* Rotate elements i and i + E/2 of each head by position / 10000^(2i/E) if positions are rotary (Su et al. 2021, eq. 34). */
  rotate(x, position) {
    const width = x.length / this.num_heads, half = width / 2;
    return this.positions !== "rotary" || position === 0 ? x : x.map((value, d) => {
      const i = d % half, isFirst = d % width < half, angle = position / 10_000 ** (2 * i / width);
      return value * Math.cos(angle) + (isFirst ? -x[d + half] : x[d - half]) * Math.sin(angle);
    });
  }

  /* x + f(norm(x)) (pre-norm, Xiong et al. 2020), or norm(x + f(x)) (post-norm) */
  residual(block, x, f) {
    return this.norm === "pre" ? sum(x, f(layerNorm(block.norm, x))) : layerNorm(block.norm, sum(x, f(x)));
  }

  /* W_2 φ(W_1 x + b_1) + b_2 (eq. 2, where φ is ReLU) */
  feedForward(block, x) {
    const activate = h => h.map(ACTIVATIONS[this.activation]);
    return this.residual(block, x, h => linear(block.down_projection, activate(linear(block.up_projection, h))));
  }

  /* The key and the value of a state, heads side by side. In self-attention, keys have positions. */
  project(block, h, position = 0) {
    const both = linear(block.key_value, h);
    return { key: this.rotate(both.subarray(0, both.length / 2), position), value: both.subarray(both.length / 2) };
  }

  /* Multi-head attention of one query: softmax(q Kᵀ / √E) V for each head, then W^O (§3.2.2). Returns the output and each
     head's weights. edit(head, weights) returns the weights to use. In self-attention, the query has a position. */
  attend(block, scaled, h, memory, edit, position = 0) {
    const query = this.rotate(linear(block.query, h), position), width = query.length / this.num_heads;
    const context = new Float32Array(query.length);
    const weights = range(this.num_heads).map(head => {
      const start = head * width, scores = new Float32Array(memory.length);
      memory.forEach(({ key }, s) => {
        let score = 0;
        for (let e = start; e < start + width; e++) score += query[e] * key[e];
        scores[s] = scaled ? score / Math.sqrt(width) : score;
      });
      const own = edit(head, softmax(scores));
      for (let e = start; e < start + width; e++) context[e] = memory.reduce((total, { value }, s) => total + own[s] * value[e], 0);
      return own;
    });
    return { output: linear(block.output, context), weights };
  }

  /* Return the states of the source, and its self-attention weights[layer][query][head]. */
  encode(ids, edits = []) {
    let x = ids.map((id, position) => this.embed(this.src_embedding ?? this.tgt_embedding, id, position));
    const weights = this.layers.encoder.map((layer, l) => {
      const block = layer.self_attention, normed = this.norm === "pre" ? x.map(each => layerNorm(block.norm, each)) : x;
      const memory = normed.map((h, position) => this.project(block, h, position)), rows = [];
      x = x.map((each, query) => this.residual(block, each, h => {
        const { output, weights } = this.attend(block, this.scaled.self, h, memory,
          (head, own) => edited(edits, "encoder_self", l, head, query, own), query);
        rows.push(weights);
        return output;
      }));
      x = x.map(each => this.feedForward(layer.feed_forward, each));
      return rows;
    });
    return { states: this.norm === "pre" ? x.map(each => layerNorm(this.encoder_norm, each)) : x, weights };
  }

  /* The state of the decoder: the keys and values of the source, and those of the target so far. */
  start({ states }) {
    return this.layers.decoder.map(layer => ({ past: [], memory: states.map(h => this.project(layer.cross_attention, h)) }));
  }

  /* Decode one more position. Returns the logits of the next token "V", the next state, and the weights of both kinds of
     attention, [layer][head]. */
  step(token, state, edits = []) {
    const query = state[0].past.length, weights = { cross: [], decoder_self: [] };
    let x = this.embed(this.tgt_embedding, token, query);
    const next = this.layers.decoder.map((layer, l) => {
      const attend = (kind, block, scaled, h, memory, position) => {
        const found = this.attend(block, scaled, h, memory, (head, own) => edited(edits, kind, l, head, query, own), position);
        weights[kind].push(found.weights);
        return found.output;
      };
      let { past, memory } = state[l];
      x = this.residual(layer.self_attention, x, h => {
        past = [...past, this.project(layer.self_attention, h, query)];
        return attend("decoder_self", layer.self_attention, this.scaled.self, h, past, query);
      });
      x = this.residual(layer.cross_attention, x, h => attend("cross", layer.cross_attention, this.scaled.cross, h, memory));
      x = this.feedForward(layer.feed_forward, x);
      return { past, memory };
    });
    if (this.norm === "pre") x = layerNorm(this.decoder_norm, x);
    return { logits: linear({ weight: (this.output ?? this.tgt_embedding).weight, bias: this.output_bias }, x), state: next, weights };
  }
}

/* ---- The RNN: an LSTM encoder of one direction or two, an LSTM decoder with global attention and input feeding (Luong et
   al. 2015). It has one layer and one head of attention, and the same interface as the transformer. */
class RNN {
  num_heads = 1;
  attentionLayers = { cross: 1 };

  constructor({ config, tensors, weights }) { Object.assign(this, config, readWeights({ tensors, weights })); }

  /* √D · E[token] */
  embed({ weight: { data, columns } }, token) {
    return data.slice(token * columns, (token + 1) * columns).map(value => value * Math.sqrt(columns));
  }

  /* c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c'), with [i; f; g; o] = W x + b + U h + b' + more (Hochreiter and
     Schmidhuber 1997; f: Gers et al. 2000) */
  lstm({ layer }, x, [h, c], more = null) {
    const W = linear({ weight: layer.weight_ih_l0, bias: layer.bias_ih_l0 }, x);
    const U = linear({ weight: layer.weight_hh_l0, bias: layer.bias_hh_l0 }, h), D = h.length;
    const gate = (k, d) => W[k * D + d] + U[k * D + d] + (more ? more[k * D + d] : 0);
    const cell = c.map((value, d) => sigmoid(gate(1, d)) * value + sigmoid(gate(0, d)) * Math.tanh(gate(2, d)));
    return [cell.map((value, d) => sigmoid(gate(3, d)) * Math.tanh(value)), cell];
  }

  /* Return the states of the source, and the last state of each layer, directions side by side. */
  encode(ids) {
    let x = ids.map(id => this.embed(this.src_embedding ?? this.tgt_embedding, id));
    const finals = Object.values(this.encoder.layers).map(directions => {
      const runs = Object.values(directions).map((layer, direction) => {
        const isBackward = direction === 1 || this.reverse_source;
        const zeros = new Float32Array(layer.layer.weight_hh_l0.columns), states = [];
        let state = [zeros, zeros];
        for (const input of isBackward ? x.toReversed() : x) { state = this.lstm(layer, input, state); states.push(state[0]); }
        return { states: isBackward ? states.reverse() : states, last: state };
      });
      x = x.map((_, s) => concat(...runs.map(run => run.states[s])));
      return [0, 1].map(part => concat(...runs.map(run => run.last[part])));
    });
    return { states: x, finals };
  }

  start({ states, finals }) {
    const keys = states.map(h => linear(this.attention.score.weight, h));   // of score h_tᵀ W h_s (§3.1)
    return { layers: finals, feed: new Float32Array(states[0].length), states, keys, length: 0 };
  }

  /* Decode one more position, see the transformer. The input is [E y; h̃_{t−1}] (§3.3). */
  step(token, { layers, feed, states, keys, length }, edits = []) {
    let h = this.embed(this.tgt_embedding, token);
    const next = Object.values(this.decoder).map((layer, l) => {
      const state = this.lstm(layer, h, layers[l], l ? null : linear(this.context_gates, feed));
      [h] = state;
      return state;
    });
    const scores = keys.map(key => key.reduce((total, value, d) => total + value * h[d], 0));
    const weights = edited(edits, "cross", 0, 0, length, softmax(scores));
    const context = h.map((_, d) => states.reduce((total, state, s) => total + weights[s] * state[d], 0));
    const attentional = linear(this.combine, concat(context, h)).map(Math.tanh);   // h̃_t = tanh(W_c [c_t; h_t]) (eq. 5)
    const logits = linear({ weight: (this.output ?? this.tgt_embedding).weight, bias: this.output_bias }, linear(this.readout, attentional));
    return { logits, state: { layers: next, feed: attentional, states, keys, length: length + 1 }, weights: { cross: [[weights]] } };
  }
}

const MODELS = { transformer: Transformer, rnn: RNN };

/* ---- Greedy search: the most probable token at every step, never PAD or BOS, until EOS or the length limit.
   Yields a step for each token: {token, probabilities "V", weights, isLast}. The first tokens can be given: prefix. */
function* greedySteps(model, memory, { limit, edits = [], prefix = [] }) {
  let state = model.start(memory), token = BOS;
  for (let t = 0; t < limit; t++) {
    const { logits, state: next, weights } = model.step(token, state, edits);
    const probabilities = softmax(logits);
    logits[PAD] = logits[BOS] = -Infinity;
    token = prefix[t] ?? logits.reduce((best, logit, id) => logit > logits[best] ? id : best, EOS);
    state = next;
    const isLast = token === EOS || t + 1 === limit;
    yield { token, probabilities, weights, isLast };
    if (isLast) return;
  }
}

/* Target tokens of a source, EOS counted on both sides. */
const lengthLimit = ({ factor, extra }, sourceLength) => Math.floor(Math.max(1, factor * sourceLength + extra));
